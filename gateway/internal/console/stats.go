package console

import (
	"net/url"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// chart is what charts.js draws, and the same as a table.
type chart struct {
	Name, Title string
	// Data is columns: seconds, then one of each series.
	Data  chartData
	Heads []string
	Rows  [][]string
}

type chartData struct {
	Series []string  `json:"series"`
	At     []int64   `json:"at"`
	Values [][]int64 `json:"values"`
}

// statsChart draws the last hour of a queue, or of all of them; nil where the API gives no counts: a page without its
// chart is better than none.
func (v *visit) statsChart(title, queue string) *chart {
	now := v.console.now().UTC()
	query := url.Values{"from": {now.Add(-time.Hour).Format(time.RFC3339)}, "to": {now.Format(time.RFC3339)}, "step": {"minute"}}
	if queue != "" {
		query.Set("queue", queue)
	}
	counts, err := get[api.Stats](v.client, "/v1/stats", query)
	if err != nil {
		return nil // the log line of this request has why
	}
	return newChart(title, counts.Items)
}

func newChart(title string, items []api.StatsItem) *chart {
	c := &chart{Name: "stats", Title: title, Heads: []string{"UTC", "Submitted", "Completed", "Failed attempts", "Dead"}}
	c.Data = chartData{Series: []string{"Submitted", "Completed", "Failed attempts"}, Values: make([][]int64, 3)}
	for _, one := range items {
		c.Data.At = append(c.Data.At, one.At.Unix())
		for i, n := range []int64{one.Submitted, one.Completed, one.FailedAttempts} {
			c.Data.Values[i] = append(c.Data.Values[i], n)
		}
		c.Rows = append(c.Rows, []string{
			one.At.UTC().Format("15:04"), view.Number(one.Submitted), view.Number(one.Completed), view.Number(one.FailedAttempts), view.Number(one.DeadLetter),
		})
	}
	return c
}
