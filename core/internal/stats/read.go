package stats

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// readSQL reads one range of one index, whatever the other queues have.
const readSQL = `
SELECT date_bin(@step::interval, at, '1970-01-01 00:00:00+00') AS at,
       sum(submitted)::bigint AS submitted, sum(started)::bigint AS started, sum(completed)::bigint AS completed,
       sum(failed_attempts)::bigint AS failed_attempts, sum(dead_letter)::bigint AS dead_letter, sum(cancelled)::bigint AS cancelled,
       sum(waiting_ms)::bigint AS waiting_ms, sum(running_ms)::bigint AS running_ms
FROM job_stats
WHERE tenant_id = @tenant_id AND queue = @queue AND at >= @from AND at < @to
GROUP BY 1`

type pointRow struct {
	At             time.Time
	Submitted      int64
	Started        int64
	Completed      int64
	FailedAttempts int64
	DeadLetter     int64
	Cancelled      int64
	WaitingMs      int64
	RunningMs      int64
}

// JobStats gives what a tenant's jobs did, of one queue or with an empty queue of all, by steps, with the steps in which
// nothing happened. What is absent in the request is its default.
func (s *Stats) JobStats(ctx context.Context, owner tenant.ID, request hop.StatsRequest) (api.Stats, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	asked, err := s.rangeOf(ctx, request)
	if err != nil {
		return api.Stats{}, err
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[pointRow], readSQL, store.Args{
		"tenant_id": owner, "queue": request.Queue, "step": asked.length, "from": asked.from, "to": asked.to,
	})
	if err != nil {
		return api.Stats{}, fmt.Errorf("stats: %w", store.NotApplied(err))
	}
	made := api.Stats{From: api.At(asked.from), To: api.At(asked.to), Step: asked.step, Items: make([]api.StatsItem, asked.points())}
	if request.Queue != "" {
		made.Queue = &request.Queue
	}
	for i := range made.Items {
		made.Items[i].At = api.At(asked.from.Add(time.Duration(i) * asked.length))
	}
	for _, row := range rows {
		item := &made.Items[int(row.At.Sub(asked.from)/asked.length)]
		item.Submitted, item.Started, item.Completed, item.FailedAttempts = row.Submitted, row.Started, row.Completed, row.FailedAttempts
		item.DeadLetter, item.Cancelled, item.WaitingMS, item.RunningMS = row.DeadLetter, row.Cancelled, row.WaitingMs, row.RunningMs
	}
	return made, nil
}

// steps are the lengths of the steps, the shortest first.
func steps() []step {
	return []step{{api.StepMinute, time.Minute}, {api.StepHour, time.Hour}, {api.StepDay, 24 * time.Hour}}
}

type step struct {
	name   string
	length time.Duration
}

// span is a range of time in steps.
type span struct {
	from, to time.Time
	step     string
	length   time.Duration
}

// points is how many steps begin in the range.
func (s span) points() int {
	length := s.to.Sub(s.from)
	points := int(length / s.length)
	if length%s.length > 0 {
		points++
	}
	return points
}

const (
	defaultRange = time.Hour
	// minutesRange is the longest range that is by minutes if no step is named.
	minutesRange = 24 * time.Hour
)

func (s *Stats) rangeOf(ctx context.Context, request hop.StatsRequest) (span, error) {
	var now time.Time
	if request.To == nil {
		var err error
		if now, err = s.Now(ctx); err != nil {
			return span{}, fmt.Errorf("stats: %w", err)
		}
	}
	asked, refused := rangeOf(request, now)
	if refused != nil {
		return span{}, refused
	}
	return asked, nil
}

// rangeOf fills in the defaults of a request, and refuses a range that is empty or too long.
func rangeOf(request hop.StatsRequest, now time.Time) (span, *problem.Problem) {
	asked := span{to: now, step: request.Step}
	if request.To != nil {
		asked.to = request.To.Time
	}
	asked.from = asked.to.Add(-defaultRange)
	if request.From != nil {
		asked.from = request.From.Time
	}
	asked.from, asked.to = asked.from.UTC(), asked.to.UTC()
	if !asked.from.Before(asked.to) {
		return span{}, problem.Invalid(problem.FieldError{Field: "from", Message: "must be before to"})
	}
	if asked.step == "" {
		asked.step = api.StepHour
		if asked.to.Sub(asked.from) <= minutesRange {
			asked.step = api.StepMinute
		}
	}
	found := false
	for _, one := range steps() {
		if found = found || one.name == asked.step; !found {
			continue
		}
		try := span{asked.from.Truncate(one.length), asked.to, one.name, one.length}
		switch fits := try.points() <= api.MaxStatsItems; {
		case fits && one.name == asked.step:
			return try, nil
		case fits:
			return span{}, problem.Invalid(problem.FieldError{Field: "step", Message: fmt.Sprintf(
				"the range has more than %d steps of this length; use step=%s", api.MaxStatsItems, one.name)})
		}
	}
	if !found {
		return span{}, problem.Invalid(problem.FieldError{Field: "step", Message: "must be minute, hour or day"})
	}
	return span{}, problem.Invalid(problem.FieldError{Field: "from", Message: fmt.Sprintf("the range must have at most %d days", api.MaxStatsItems)})
}
