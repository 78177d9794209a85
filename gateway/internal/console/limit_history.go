package console

import (
	"cmp"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// historyOf is what was used of the limits, and who was refused.
type limitHistory struct {
	Charts  *charts.Charts
	Refused []refusal
}

// refusal is who was refused by one limit.
type refusal struct {
	api.LimitRefusals

	Limit string
}

// historyOf gives nil where the API gives none: a page without its charts is better than none.
func historyOf(v *visit.Visit, caps []api.CapUse) *limitHistory {
	span := charts.SpanOf(v.Request.URL.Query())
	stats, err := limitStats(v, span)
	if err != nil {
		return nil // the log line of this request has why
	}
	shown := limitHistory{Charts: &charts.Charts{Spans: charts.SpanLinks(v.Request.URL.Path, span), Source: "/console/charts?" + url.Values{"of": {"limits"}, "span": {span}}.Encode(), All: charts.Limits(span, &stats, caps)}}
	for _, one := range stats.Refused {
		shown.Refused = append(shown.Refused, refusal{one, cmp.Or(charts.LimitLabels[one.Name], one.Name)})
	}
	return &shown
}

func limitStats(v *visit.Visit, span string) (api.LimitStats, error) {
	return v.API.LimitStats(v.Context(), charts.Request(span, v.Site.Now(), visit.SharedFor))
}

// newerLimits answers what an open page of the limits draws next.
func newerLimits(v *visit.Visit, span string) (map[string]charts.Data, error) {
	stats, err := limitStats(v, span)
	if err != nil {
		return nil, err
	}
	limits, err := v.API.Limits(v.Context())
	return charts.ByName(charts.Limits(span, &stats, limits.Caps)), err
}
