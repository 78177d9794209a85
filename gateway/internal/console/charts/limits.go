package charts

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// LimitLabels are the caps and rates by their names in refusals.
var LimitLabels = map[string]string{ //nolint:gosec // names of limits, no credentials
	"tenant-active": "The tenant's active jobs", "tenant-running": "The tenant's running jobs",
	"user-active": "One user's active jobs", "user-running": "One user's running jobs",
	"queue-active": "A queue's active jobs", "queue-running": "A queue's running jobs",
	"tenant-requests": "The tenant's requests", "tenant-jobs": "The tenant's jobs submitted",
	"tenant-reports":      "The tenant's outcomes and heartbeats",
	"credential-requests": "One key's requests", "credential-jobs": "One key's jobs submitted",
	"user-requests": "One user's requests", "user-jobs": "One user's jobs submitted",
}

// LimitMeanings say in a sentence what a limit of a tenant counts, and what happens when it is reached.
var LimitMeanings = map[string]string{
	"tenant-active":       "Jobs of the tenant that have not ended. At the cap, submits are refused.",
	"tenant-running":      "Jobs of the tenant that run at the same time. At the cap, further jobs stay queued.",
	"user-active":         "Jobs of one user that have not ended. At the cap, that user's submits are refused.",
	"user-running":        "Jobs of one user that run at the same time. At the cap, that user's further jobs stay queued.",
	"tenant-requests":     "Requests of all keys of the tenant.",
	"tenant-jobs":         "Jobs that the tenant submits, with all of its keys.",
	"tenant-reports":      "Heartbeats and outcomes that workers report.",
	"credential-requests": "Requests with this key. Each key can use the tenant's whole rate; all keys together share it.",
	"credential-jobs":     "Jobs submitted with this key. Each key can use the tenant's whole rate; all keys together share it.",
	"user-requests":       "Requests for one user, with all keys.",
	"user-jobs":           "Jobs submitted for one user, with all keys.",
}

// allLabels are the rates that each user or key has for itself, where the use is that of all.
var allLabels = map[string]string{ //nolint:gosec // likewise
	"user-requests": "All users' requests", "user-jobs": "All users' jobs submitted",
	"credential-requests": "All keys' requests", "credential-jobs": "All keys' jobs submitted",
}

// isCap says whether a limit is a cap, and not a rate.
func isCap(name string) bool {
	return strings.HasSuffix(name, "-active") || strings.HasSuffix(name, "-running")
}

// refusedName is the chart of what was refused.
const refusedName = "limits-refused"

// Limits draws the use of each limit beside it, and then what was refused, if anything was. The last step has the
// tenant's caps as they are now: the counts know of a change only when something asks for room.
func Limits(span string, stats *api.LimitStats, caps []api.CapUse) []Chart {
	at := stepsOf(stats.From, stats.To, stats.Step)
	var all []Chart
	refused := newChart(span, refusedName, "Refused", nil, at)
	for _, one := range slices.SortedStableFunc(slices.Values(stats.Limits), byWhose) {
		title := cmp.Or(allLabels[one.Name], LimitLabels[one.Name], one.Name)
		of := newLimitChart(span, one.Name, title, at)
		line, sum := make([]*float64, len(at)), int64(0)
		for _, item := range one.Items {
			place, found := slices.BinarySearchFunc(at, item.At.Time, time.Time.Compare)
			if !found {
				continue
			}
			line[place] = new(float64(item.Refused))
			sum += item.Refused
			of.note(place, one.Name, &item)
		}
		if of.Data.Limited {
			limits := of.Data.Values[len(of.Data.Values)-1]
			hold(limits)
			if now := slices.IndexFunc(caps, func(c api.CapUse) bool { return c.Scope+"-"+c.Kind == one.Name }); now >= 0 && len(at) > 0 {
				limits[len(at)-1] = new(float64(caps[now].Limit))
			}
		}
		all = append(all, of)
		if sum > 0 {
			refused.Data.Series, refused.Data.Values = append(refused.Data.Series, title), append(refused.Data.Values, line)
		}
	}
	if len(refused.Data.Series) > 0 {
		refused.table(at)
		all = append(all, refused)
	}
	return all
}

// byWhose puts the tenant's own limits first, then those of users, of queues, and of keys.
func byWhose(a, b api.LimitHistory) int {
	place := func(name string) int {
		whose, _, _ := strings.Cut(name, "-")
		return slices.Index([]string{"tenant", "user", "queue", "credential"}, whose)
	}
	return cmp.Compare(place(a.Name), place(b.Name))
}

// newLimitChart draws a cap's largest use below the cap; of a rate what was admitted and refused, below the rate where all
// share it.
func newLimitChart(span, name, title string, at []time.Time) Chart {
	if isCap(name) {
		made := newChart(span, "limit-"+name, title, []string{"Most in use", "Limit"}, at)
		made.Data.Limited = true
		made.Heads = append(made.Heads, "Refused")
		return made
	}
	shared := allLabels[name] == ""
	series := []string{"Admitted", "Refused", "Limit"}
	if !shared {
		series = series[:2]
	}
	made := newChart(span, "limit-"+name, title, series, at)
	made.Data.Limited = shared
	for i := range at {
		made.set(i, new(0.0), new(0.0)) // where nothing was asked for, nothing was admitted
	}
	return made
}

// note sets a step, in the order of the chart's heads.
func (c *Chart) note(place int, name string, item *api.LimitStatsItem) {
	counts := []int64{item.Used, item.Refused, item.Limit}
	if isCap(name) {
		counts = []int64{item.Used, item.Limit, item.Refused}
	}
	var row []string
	for i, count := range counts[:len(c.Heads)-1] {
		if i < len(c.Data.Values) {
			c.Data.Values[i][place] = new(float64(count))
		}
		row = append(row, view.Number(count))
	}
	c.row(item.At.Time, row...)
}

// table sets the chart's table, without the steps in which nothing was refused.
func (c *Chart) table(at []time.Time) {
	c.Heads = append(c.Heads[:1:1], c.Data.Series...)
	for i := range at {
		some := false
		var row []string
		for s := range c.Data.Values {
			n := int64(0)
			if value := c.Data.Values[s][i]; value != nil {
				n = int64(*value)
			}
			row, some = append(row, view.Number(n)), some || n > 0
		}
		if some {
			c.row(at[i], row...)
		}
	}
}

// hold fills the gaps of a limit, which holds where nothing asked for it too: by the one before, at first by the one after.
func hold(values []*float64) {
	first := slices.IndexFunc(values, func(value *float64) bool { return value != nil })
	for i := range values {
		switch {
		case values[i] != nil || first < 0:
		case i < first:
			values[i] = values[first]
		default:
			values[i] = values[i-1]
		}
	}
}
