package console

import (
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/operator"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// jobCharts draws a queue, or all of them; nil where the API gives no counts: a page without its charts is better than none.
func jobCharts(v *visit.Visit, queue string) *charts.Charts {
	span := charts.SpanOf(v.Request.URL.Query())
	counts, err := statsOf(v, span, queue)
	if err != nil {
		return nil // the log line of this request has why
	}
	source := url.Values{"span": {span}}
	if queue != "" {
		source.Set("queue", queue)
	}
	return &charts.Charts{
		Spans:  charts.SpanLinks(v.Request.URL.Path, span),
		Source: "/console/charts?" + source.Encode(), All: charts.Jobs(span, counts),
	}
}

func statsOf(v *visit.Visit, span, queue string) ([]api.StatsItem, error) {
	request := charts.Request(span, v.Site.Now(), visit.SharedFor)
	request.Queue = queue
	counts, err := v.API.Stats(v.Context(), request)
	return counts.Items, err
}

// newerCharts answers what an open page draws next, by the charts' names.
func newerCharts(v *visit.Visit) (any, error) {
	query := v.Request.URL.Query()
	span := charts.SpanOf(query)
	switch query.Get("of") {
	case "limits":
		return newerLimits(v, span)
	case "tenants":
		return operator.NewerTenants(v, span)
	}
	counts, err := statsOf(v, span, query.Get("queue"))
	return charts.ByName(charts.Jobs(span, counts)), err
}
