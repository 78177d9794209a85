package operator

import (
	"fmt"
	"math"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// shares are the tenants' shares of the attempts that were started in a span, for the operator.
type shares struct {
	Charts *charts.Charts

	stats api.TenantStats
	// started, running (ms) and weight are sums over the tenants that had attempts.
	started, running, weight int64
}

// tenantShare is one tenant's, in words: of the attempts, of the time that these ran, and Fair, its share by weight among
// the tenants that had attempts.
type tenantShare struct{ Attempts, Time, Fair string }

// sharesIn gives nil where the API gives none: a list of tenants without shares is better than none.
func sharesIn(v *visit.Visit) *shares {
	span := charts.SpanOf(v.Request.URL.Query())
	stats, err := tenantStats(v, span)
	if err != nil {
		return nil // the log line of this request has why
	}
	s := shares{stats: stats, started: stats.Others.Started, running: stats.Others.RunningMS, weight: stats.Others.Weight}
	for i := range stats.Tenants {
		s.started += stats.Tenants[i].Started
		s.running += stats.Tenants[i].RunningMS
		s.weight += int64(stats.Tenants[i].Weight)
	}
	s.Charts = &charts.Charts{Spans: charts.SpanLinks(v.Request.URL.Path, span), All: charts.Tenants(span, &stats)}
	if span == charts.SpanHour { // a day of many tenants is much to read: an open page does not repeat it
		s.Charts.Source = "/console/charts?" + url.Values{"of": {"tenants"}, "span": {span}}.Encode()
	}
	return &s
}

func tenantStats(v *visit.Visit, span string) (api.TenantStats, error) {
	return v.API.TenantStats(v.Context(), charts.Request(span, v.Site.Now(), visit.SharedFor))
}

// NewerTenants answers what an open page of the tenants draws next.
func NewerTenants(v *visit.Visit, span string) (map[string]charts.Data, error) {
	stats, err := tenantStats(v, span)
	return charts.ByName(charts.Tenants(span, &stats)), err
}

// of gives a tenant's share. The API counts only those with the most attempts one by one: of another one it is known that
// it had no more than the last of them, and nothing of its time.
func (s *shares) of(tenant string) tenantShare {
	counted := s.stats.Tenants
	for i := range counted {
		if one := &counted[i]; one.TenantID == tenant {
			return tenantShare{percent(one.Started, s.started), percent(one.RunningMS, s.running), percent(int64(one.Weight), s.weight)}
		}
	}
	if s.stats.Others.Started == 0 {
		return tenantShare{percent(0, 1), percent(0, 1), "—"}
	}
	return tenantShare{"at most " + percent(counted[len(counted)-1].Started, s.started), "—", "—"}
}

// percent is of a whole above 0, or "—".
func percent(part, whole int64) string {
	if whole <= 0 {
		return "—"
	}
	if p := float64(part) * 100 / float64(whole); p > 0 && p < 10 {
		return view.Decimal(math.Max(math.Round(p*10)/10, 0.1)) + " %"
	}
	return fmt.Sprintf("%d %%", int64(math.Round(float64(part)*100/float64(whole))))
}
