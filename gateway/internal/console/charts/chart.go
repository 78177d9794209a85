package charts

import (
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Spans of charts.
const (
	SpanHour = "hour" // by minutes
	SpanDay  = "day"  // by hours
)

// Charts are what a queue's jobs did, or those of all queues.
type Charts struct {
	Spans []SpanLink
	// Source is where an open page asks for newer ones.
	Source string
	All    []Chart
}

// SpanLink leads to the page with another span.
type SpanLink struct {
	Label, Path string
	Current     bool
}

// Chart is what charts.js draws, and the same as a table.
type Chart struct {
	Name, Title string
	Data        Data
	Heads       []string
	Rows        []Row
	// Day says that the table's times are hours of several days.
	Day bool
}

// Row is a step in the table.
type Row struct {
	At    time.Time
	Cells []string
}

// Data are columns: seconds since 1970, then one of each series; null is a gap.
type Data struct {
	Series []string `json:"series"`
	// Unit is s where the values are seconds; empty for counts.
	Unit string `json:"unit,omitzero"`
	// Limited says that the last series is the limit of the others.
	Limited bool         `json:"limited,omitzero"`
	At      []int64      `json:"at"`
	Values  [][]*float64 `json:"values"`
}

// SpanLinks lead to the page at a path with each span.
func SpanLinks(path, span string) []SpanLink {
	return []SpanLink{{"Last hour", path, span == SpanHour}, {"Last day", path + "?span=" + SpanDay, span == SpanDay}}
}

// SpanOf is the span that a query asks for.
func SpanOf(query url.Values) string {
	if query.Get("span") == SpanDay {
		return SpanDay
	}
	return SpanHour
}

// ByName gives what an open page draws next, by the charts' names.
func ByName(all []Chart) map[string]Data {
	byName := map[string]Data{}
	for _, one := range all {
		byName[one.Name] = one.Data
	}
	return byName
}

func newChart(span, name, title string, series []string, steps []time.Time) Chart {
	c := Chart{Name: name, Title: title, Heads: append([]string{"Time"}, series...), Day: span == SpanDay}
	c.Data = Data{Series: series, At: make([]int64, len(steps)), Values: make([][]*float64, len(series))}
	for i := range steps {
		c.Data.At[i] = steps[i].Unix()
	}
	for i := range series {
		c.Data.Values[i] = make([]*float64, len(steps))
	}
	return c
}

func (c *Chart) row(at time.Time, cells ...string) { c.Rows = append(c.Rows, Row{at, cells}) }

func (c *Chart) set(at int, values ...*float64) {
	for i, value := range values {
		c.Data.Values[i][at] = value
	}
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
