package console

import (
	"math"
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Spans of charts.
const (
	spanHour = "hour" // by minutes
	spanDay  = "day"  // by hours
)

// charts are what a queue's jobs did, or those of all queues.
type charts struct {
	Spans []spanLink
	// Source is where an open page asks for newer ones.
	Source string
	All    []chart
}

// spanLink leads to the page with another span.
type spanLink struct {
	Label, Path string
	Current     bool
}

// chart is what charts.js draws, and the same as a table.
type chart struct {
	Name, Title string
	Data        chartData
	Heads       []string
	Rows        []chartRow
	// Day says that the table's times are hours of several days.
	Day bool
}

// chartRow is a step in the table.
type chartRow struct {
	At    time.Time
	Cells []string
}

// chartData are columns: seconds since 1970, then one of each series; null is a gap.
type chartData struct {
	Series []string `json:"series"`
	// Unit is s where the values are seconds; empty for counts.
	Unit string `json:"unit,omitzero"`
	// Limited says that the last series is the limit of the others.
	Limited bool         `json:"limited,omitzero"`
	At      []int64      `json:"at"`
	Values  [][]*float64 `json:"values"`
}

// charts draws a queue, or all of them; nil where the API gives no counts: a page without its charts is better than none.
func (v *visit) charts(queue string) *charts {
	span := spanOf(v.r.URL.Query())
	counts, err := v.stats(span, queue)
	if err != nil {
		return nil // the log line of this request has why
	}
	source := url.Values{"span": {span}}
	if queue != "" {
		source.Set("queue", queue)
	}
	return &charts{
		Spans:  spanLinks(v.r.URL.Path, span),
		Source: "/console/charts?" + source.Encode(), All: drawn(span, counts),
	}
}

func spanLinks(path, span string) []spanLink {
	return []spanLink{{"Last hour", path, span == spanHour}, {"Last day", path + "?span=" + spanDay, span == spanDay}}
}

func spanOf(query url.Values) string {
	if query.Get("span") == spanDay {
		return spanDay
	}
	return spanHour
}

func (v *visit) stats(span, queue string) ([]api.StatsItem, error) {
	query := v.spanQuery(span)
	if queue != "" {
		query.Set("queue", queue)
	}
	counts, err := get[api.Stats](v.client, "/v1/stats", query)
	return counts.Items, err
}

// spanQuery asks for the steps of a span.
func (v *visit) spanQuery(span string) url.Values {
	to := v.console.now().UTC().Truncate(liveFor) // so that open pages ask for the same
	from, step := to.Add(-time.Hour), api.StepMinute
	if span == spanDay {
		from, step = to.Add(-24*time.Hour), api.StepHour
	}
	return url.Values{"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "step": {step}}
}

// newerCharts answers what an open page draws next, by the charts' names.
func newerCharts(v *visit) (any, error) {
	query := v.r.URL.Query()
	span := spanOf(query)
	switch query.Get("of") {
	case "limits":
		return newerLimits(v, span)
	case "tenants":
		return newerTenants(v, span)
	}
	counts, err := v.stats(span, query.Get("queue"))
	return dataOf(drawn(span, counts)), err
}

func dataOf(all []chart) map[string]chartData {
	byName := map[string]chartData{}
	for _, one := range all {
		byName[one.Name] = one.Data
	}
	return byName
}

func drawn(span string, items []api.StatsItem) []chart {
	steps := make([]time.Time, len(items))
	for i := range items {
		steps[i] = items[i].At.Time
	}
	counts := newChart(span, "stats", "What jobs did", []string{"Submitted", "Completed", "Failed attempts"}, steps)
	counts.Heads = append(counts.Heads, "Dead")
	times := newChart(span, "times", "Time on average", []string{"Waited", "Ran"}, steps)
	times.Data.Unit = "s"
	for i := range items {
		one := &items[i]
		counts.set(i, new(float64(one.Submitted)), new(float64(one.Completed)), new(float64(one.FailedAttempts)))
		counts.row(one.At.Time, view.Number(one.Submitted), view.Number(one.Completed), view.Number(one.FailedAttempts), view.Number(one.DeadLetter))
		waited, ran := mean(one.WaitingMS, one.Started), mean(one.RunningMS, one.Completed+one.FailedAttempts)
		times.set(i, waited, ran)
		times.row(one.At.Time, secondsText(waited), secondsText(ran))
	}
	return []chart{counts, times}
}

func newChart(span, name, title string, series []string, steps []time.Time) chart {
	c := chart{Name: name, Title: title, Heads: append([]string{"Time"}, series...), Day: span == spanDay}
	c.Data = chartData{Series: series, At: make([]int64, len(steps)), Values: make([][]*float64, len(series))}
	for i := range steps {
		c.Data.At[i] = steps[i].Unix()
	}
	for i := range series {
		c.Data.Values[i] = make([]*float64, len(steps))
	}
	return c
}

func (c *chart) row(at time.Time, cells ...string) { c.Rows = append(c.Rows, chartRow{at, cells}) }

func (c *chart) set(at int, values ...*float64) {
	for i, value := range values {
		c.Data.Values[i][at] = value
	}
}

// mean is in seconds; nil for nothing.
func mean(ms, of int64) *float64 {
	if of <= 0 {
		return nil
	}
	return new(math.Round(float64(ms)/float64(of)) / 1000)
}

func secondsText(seconds *float64) string {
	if seconds == nil {
		return "—"
	}
	return view.Milliseconds(int64(*seconds * 1000))
}

// stepsOf are the times of all steps of a range.
func stepsOf(from, to api.Time, step string) []time.Time {
	length := map[string]time.Duration{api.StepMinute: time.Minute, api.StepHour: time.Hour, api.StepDay: 24 * time.Hour}[step]
	var at []time.Time
	for one := from.Time; length > 0 && one.Before(to.Time); one = one.Add(length) {
		at = append(at, one)
	}
	return at
}
