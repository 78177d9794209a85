package console

import (
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// charts draws a queue, or all of them; nil where the API gives no counts: a page without its charts is better than none.
func (v *visit) charts(queue string) *charts.Charts {
	span := charts.SpanOf(v.r.URL.Query())
	counts, err := v.stats(span, queue)
	if err != nil {
		return nil // the log line of this request has why
	}
	source := url.Values{"span": {span}}
	if queue != "" {
		source.Set("queue", queue)
	}
	return &charts.Charts{
		Spans:  charts.SpanLinks(v.r.URL.Path, span),
		Source: "/console/charts?" + source.Encode(), All: charts.Jobs(span, counts),
	}
}

func (v *visit) stats(span, queue string) ([]api.StatsItem, error) {
	request := v.spanRequest(span)
	request.Queue = queue
	counts, err := v.api.Stats(v.ctx(), request)
	return counts.Items, err
}

// spanRequest asks for the steps of a span.
func (v *visit) spanRequest(span string) client.StatsRequest {
	to := v.console.now().UTC().Truncate(liveFor) // so that open pages ask for the same
	from, step := to.Add(-time.Hour), api.StepMinute
	if span == charts.SpanDay {
		from, step = to.Add(-24*time.Hour), api.StepHour
	}
	return client.StatsRequest{From: new(api.At(from)), To: new(api.At(to)), Step: step}
}

// newerCharts answers what an open page draws next, by the charts' names.
func newerCharts(v *visit) (any, error) {
	query := v.r.URL.Query()
	span := charts.SpanOf(query)
	switch query.Get("of") {
	case "limits":
		return newerLimits(v, span)
	case "tenants":
		return newerTenants(v, span)
	}
	counts, err := v.stats(span, query.Get("queue"))
	return charts.ByName(charts.Jobs(span, counts)), err
}
