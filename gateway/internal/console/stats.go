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
	Rows        [][]string
}

// chartData are columns: seconds since 1970, then one of each series; null is a gap.
type chartData struct {
	Series []string     `json:"series"`
	At     []int64      `json:"at"`
	Values [][]*float64 `json:"values"`
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
		Spans: []spanLink{
			{"Last hour", v.r.URL.Path, span == spanHour},
			{"Last day", v.r.URL.Path + "?span=" + spanDay, span == spanDay},
		},
		Source: "/console/charts?" + source.Encode(), All: drawn(span, counts),
	}
}

func spanOf(query url.Values) string {
	if query.Get("span") == spanDay {
		return spanDay
	}
	return spanHour
}

func (v *visit) stats(span, queue string) ([]api.StatsItem, error) {
	to := v.console.now().UTC().Truncate(liveFor) // so that open pages ask for the same
	from, step := to.Add(-time.Hour), api.StepMinute
	if span == spanDay {
		from, step = to.Add(-24*time.Hour), api.StepHour
	}
	query := url.Values{"from": {from.Format(time.RFC3339)}, "to": {to.Format(time.RFC3339)}, "step": {step}}
	if queue != "" {
		query.Set("queue", queue)
	}
	counts, err := get[api.Stats](v.client, "/v1/stats", query)
	return counts.Items, err
}

// newerCharts answers what an open page draws next, by the charts' names.
func newerCharts(v *visit) (any, error) {
	query := v.r.URL.Query()
	span := spanOf(query)
	counts, err := v.stats(span, query.Get("queue"))
	newer := map[string]chartData{}
	for _, one := range drawn(span, counts) {
		newer[one.Name] = one.Data
	}
	return newer, err
}

func drawn(span string, items []api.StatsItem) []chart {
	clock := "15:04"
	if span == spanDay {
		clock = "Mon 15:04"
	}
	counts := newChart("stats", "What jobs did", []string{"Submitted", "Completed", "Failed attempts"}, items)
	counts.Heads = append(counts.Heads, "Dead")
	times := newChart("times", "Seconds on average", []string{"Waited", "Ran"}, items)
	for i := range items {
		one := &items[i]
		at := one.At.UTC().Format(clock)
		counts.set(i, new(float64(one.Submitted)), new(float64(one.Completed)), new(float64(one.FailedAttempts)))
		counts.Rows = append(counts.Rows, []string{
			at, view.Number(one.Submitted), view.Number(one.Completed), view.Number(one.FailedAttempts), view.Number(one.DeadLetter),
		})
		waited, ran := mean(one.WaitingMS, one.Started), mean(one.RunningMS, one.Completed+one.FailedAttempts)
		times.set(i, waited, ran)
		times.Rows = append(times.Rows, []string{at, secondsText(waited), secondsText(ran)})
	}
	return []chart{counts, times}
}

func newChart(name, title string, series []string, items []api.StatsItem) chart {
	c := chart{Name: name, Title: title, Heads: append([]string{"UTC"}, series...)}
	c.Data = chartData{Series: series, At: make([]int64, len(items)), Values: make([][]*float64, len(series))}
	for i := range items {
		c.Data.At[i] = items[i].At.Unix()
	}
	for i := range series {
		c.Data.Values[i] = make([]*float64, len(items))
	}
	return c
}

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
