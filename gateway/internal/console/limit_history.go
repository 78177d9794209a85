package console

import (
	"cmp"
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/shared/api"
)

// limitHistory is what was used of the limits, and who was refused.
type limitHistory struct {
	Charts  *charts.Charts
	Refused []refusal
}

// refusal is who was refused by one limit.
type refusal struct {
	api.LimitRefusals

	Limit string
}

// limitHistory gives nil where the API gives none: a page without its charts is better than none.
func (v *visit) limitHistory(caps []api.CapUse) *limitHistory {
	span := charts.SpanOf(v.r.URL.Query())
	stats, err := v.limitStats(span)
	if err != nil {
		return nil // the log line of this request has why
	}
	shown := limitHistory{Charts: &charts.Charts{Spans: charts.SpanLinks(v.r.URL.Path, span), Source: "/console/charts?" + url.Values{"of": {"limits"}, "span": {span}}.Encode(), All: charts.Limits(span, &stats, caps)}}
	for _, one := range stats.Refused {
		shown.Refused = append(shown.Refused, refusal{one, cmp.Or(charts.LimitLabels[one.Name], one.Name)})
	}
	return &shown
}

func (v *visit) limitStats(span string) (api.LimitStats, error) {
	return v.api.LimitStats(v.ctx(), v.spanRequest(span))
}

// newerLimits answers what an open page of the limits draws next.
func newerLimits(v *visit, span string) (map[string]charts.Data, error) {
	stats, err := v.limitStats(span)
	if err != nil {
		return nil, err
	}
	limits, err := v.api.Limits(v.ctx())
	return charts.ByName(charts.Limits(span, &stats, limits.Caps)), err
}
