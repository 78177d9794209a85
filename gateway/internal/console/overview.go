package console

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// overviewPage is what is wrong, since when, and what can be done; then all queues.
type overviewPage struct {
	Trouble []trouble
	Totals  []depth
	Oldest  string
	Queues  []queueRow
	Charts  *charts.Charts
	// Changes are the latest entries of the audit log.
	Changes []auditRow
	// Many says that there are more queues than were looked at.
	Many  bool
	Bound bool
}

// trouble is one thing to look at.
type trouble struct {
	Subject, Text, Path string
}

// showOverview needs at most four requests: queues, limits, and, not to update itself, the counts of the charts and what
// was changed lately.
func showOverview(v *visit.Visit) (visit.Page, error) {
	if v.Session.Operator {
		return visit.Page{}, visit.RedirectError{To: home(true)}
	}
	page := overviewPage{Bound: v.Who.User != nil}
	if !v.May(api.ScopeRead) {
		return visit.Page{Template: "overview", Title: "Overview", Data: page}, nil
	}
	if !page.Bound {
		if err := overviewOfTenant(v, &page); err != nil {
			return visit.Page{}, err
		}
	}
	limits, err := v.API.Limits(v.Context())
	if err != nil {
		return visit.Page{}, err
	}
	for _, one := range gauges(&limits).Caps {
		if one.Near {
			page.Trouble = append(page.Trouble, trouble{one.Name, view.Number(one.Used) + " of " + view.Number(one.Limit) + " are used", "/console/limits"})
		}
	}
	if !v.Live() {
		page.Charts = jobCharts(v, "")
		if v.May(api.ScopeManage) && !page.Bound {
			if page.Changes, err = latestChanges(v); err != nil {
				return visit.Page{}, err
			}
		}
	}
	return visit.Page{Template: "overview", Title: "Overview", Data: page}, nil
}

func overviewOfTenant(v *visit.Visit, page *overviewPage) error {
	queues, err := someQueues(v)
	if err != nil {
		return err
	}
	page.Many = queues.NextPageToken != nil
	page.Queues = rowsOf(queues.Items)
	// Trouble first, then what is waited for longest.
	slices.SortStableFunc(page.Queues, func(a, b queueRow) int {
		return cmp.Or(cmp.Compare(len(b.Trouble), len(a.Trouble)), cmp.Compare(waited(b.Queue), waited(a.Queue)))
	})
	for i := range page.Queues {
		row := &page.Queues[i]
		if len(row.Trouble) > 0 {
			page.Trouble = append(page.Trouble, trouble{row.Queue.Name, strings.Join(row.Trouble, ". ") + sinceText(row.Queue), row.Path})
		}
	}
	dead := int64(0)
	for i := range queues.Items {
		dead += queues.Items[i].Depth.DeadLetter
	}
	if dead > 0 {
		page.Trouble = append(page.Trouble, trouble{"Dead letters", view.Number(dead) + " have given up: see their causes", "/console/dead-letters"})
	}
	page.Totals, page.Oldest = totals(queues.Items)
	return nil
}

// latestChanges are what people have changed lately, as far as the key may see it.
func latestChanges(v *visit.Visit) ([]auditRow, error) {
	entries, err := v.API.Audit(v.Context(), api.AuditFilter{}, client.PageRequest{Size: 5})
	rows := make([]auditRow, len(entries.Items))
	for i, one := range entries.Items {
		rows[i] = newAuditRow(one, false)
	}
	return rows, err
}

// waited is how long a queue's oldest job waits, in milliseconds.
func waited(q api.Queue) int64 {
	if q.OldestQueuedMS == nil {
		return 0
	}
	return *q.OldestQueuedMS
}

func sinceText(q api.Queue) string {
	if q.OldestQueuedMS == nil {
		return ""
	}
	return "; the oldest waits for " + view.Duration(time.Duration(*q.OldestQueuedMS)*time.Millisecond)
}

// totals are the tenant's jobs by state, and how long the oldest waits.
func totals(queues []api.Queue) ([]depth, string) {
	sum, capped := api.Queue{}, map[string]bool{}
	var oldest int64
	for i := range queues {
		q := &queues[i]
		sum.Depth.Queued += q.Depth.Queued
		sum.Depth.Running += q.Depth.Running
		sum.Depth.Scheduled += q.Depth.Scheduled
		sum.Depth.Waiting += q.Depth.Waiting
		sum.Depth.Blocked += q.Depth.Blocked
		sum.Depth.DeadLetter += q.Depth.DeadLetter
		for _, state := range q.DepthCapped {
			capped[state] = true
		}
		oldest = max(oldest, waited(*q))
	}
	all := []depth{}
	for _, one := range []struct {
		state string
		n     int64
	}{
		{api.StateQueued, sum.Depth.Queued},
		{api.StateRunning, sum.Depth.Running},
		{api.StateScheduled, sum.Depth.Scheduled},
		{api.StateWaiting, sum.Depth.Waiting},
		{api.StateBlocked, sum.Depth.Blocked},
		{api.StateDeadLetter, sum.Depth.DeadLetter},
	} {
		path := "/console/jobs?state=" + one.state
		if one.state == api.StateDeadLetter {
			path = "/console/dead-letters"
		}
		all = append(all, depth{one.state, view.Count(one.n, capped[one.state]), path})
	}
	if oldest == 0 {
		return all, ""
	}
	return all, view.Milliseconds(oldest)
}
