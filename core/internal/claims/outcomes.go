package claims

import (
	"cmp"
	"context"
	"errors"
	"log/slog"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/batch"
)

type (
	endResult  = batch.Result[jobs.Ended]
	beatResult = batch.Result[*jobs.Beat]
)

// Outcomes end attempts and extend leases, in group commits: concurrent ones, of any tenants, share one statement.
type Outcomes struct {
	store     *cell.Cell
	publisher *publish.Publisher
	traces    publish.Traces
	log       *slog.Logger
	ends      *batch.Batcher[jobs.Ending, jobs.Ended]
	beats     *batch.Batcher[jobs.Report, *jobs.Beat]
	moved     store.MovedTenants
}

func newOutcomes(store *cell.Cell, publisher *publish.Publisher, traces publish.Traces, log *slog.Logger) *Outcomes {
	o := &Outcomes{store: store, publisher: publisher, traces: traces, log: log}
	o.ends = batch.New(batch.Options[jobs.Ending, jobs.Ended]{
		MaxWeight: pace.FlushJobs, Capacity: pace.FlushWaiting, Timeout: pace.FlushTimeout, Flush: o.end,
		Owner:  func(e jobs.Ending) any { return e.Lease.Tenant },
		Weight: func(e jobs.Ending) int { return 1 + len(e.Result)/pace.FlushBytesPerJob },
	})
	o.beats = batch.New(batch.Options[jobs.Report, *jobs.Beat]{
		MaxWeight: pace.FlushJobs, Capacity: pace.FlushWaiting, Timeout: pace.FlushTimeout, Flush: o.beat,
		Owner:  func(r jobs.Report) any { return r.Tenant },
		Weight: func(r jobs.Report) int { return 1 + len(r.Checkpoint)/pace.FlushBytesPerJob },
	})
	return o
}

// Waiting gives how many outcomes and heartbeats wait for a flush.
func (o *Outcomes) Waiting() (outcomes, heartbeats int) { return o.ends.Waiting(), o.beats.Waiting() }

// End ends attempts with the next group commit, and wakes claims for jobs that are ready again.
func (o *Outcomes) End(ctx context.Context, endings []jobs.Ending) []jobs.Ended {
	ended := make([]jobs.Ended, len(endings))
	if request := o.traces.RequestSpan(ctx); request.IsValid() {
		for i := range endings {
			endings[i].Span = request
		}
	}
	for i, result := range o.ends.DoAll(ctx, endings) {
		ended[i] = result.Value
		if result.Err != nil {
			ended[i] = jobs.Ended{Err: store.WaitError(result.Err)}
		}
	}
	return ended
}

// end is one flush; it publishes also for callers that have left.
func (o *Outcomes) end(ctx context.Context, endings []jobs.Ending) []endResult {
	ctx, span := o.traces.Flush(ctx, "outcomes", len(endings), func(i int) trace.SpanContext { return endings[i].Span })
	defer span.End()
	ended := o.store.Jobs.End(ctx, endings)
	o.publisher.Publish(ctx, publish.Changes{Endings: endings, Ended: ended})
	results := make([]endResult, len(ended))
	for i := range ended {
		results[i].Value = ended[i]
	}
	return results
}

// GiveBack returns jobs that were not delivered, attempt included, even when ctx has ended. A job
// that it cannot return waits for the end of its lease.
func (o *Outcomes) GiveBack(ctx context.Context, found []claim.Job) {
	if len(found) == 0 {
		return
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	leases := make([]job.Lease, len(found))
	for i := range found {
		leases[i] = found[i].Lease()
	}
	given := publish.Changes{Because: metrics.Undelivered}
	for _, ended := range o.store.Jobs.GiveBack(finish, leases) {
		switch {
		case ended.Err == nil && !ended.Replayed:
			ended.Attempt = nil // nobody has executed it
			given.Jobs = append(given.Jobs, ended.Change)
		case ended.Err != nil && !errors.Is(ended.Err, jobs.ErrLeaseLost):
			o.log.WarnContext(ctx, "a claimed job could not be given back; its lease will run out", "error", ended.Err)
		}
	}
	o.publisher.Publish(ctx, given)
}

// Heartbeat extends leases, with what their holders report, and answers each in the order given.
func (o *Outcomes) Heartbeat(ctx context.Context, reports []jobs.Report) ([]api.LeaseStatus, error) {
	statuses := make([]api.LeaseStatus, len(reports))
	var shown []uuid.UUID
	var failed error // the first; of other tenants, progress may be stored
	for i, result := range o.beats.DoAll(ctx, reports) {
		if result.Err != nil {
			failed = cmp.Or(failed, result.Err)
			continue
		}
		statuses[i] = api.LeaseStatus{JobID: reports[i].Job.String(), Status: api.LeaseLost}
		if beat := result.Value; beat != nil {
			statuses[i].Status, statuses[i].LeaseExpiresAt = api.LeaseOK, &api.Time{Time: beat.LeaseExpiresAt}
			left := beat.LeaseExpiresAt.Sub(beat.Now).Milliseconds()
			statuses[i].LeaseMS = &left
			if beat.CancelRequested {
				statuses[i].Status = api.LeaseCancel
			}
			if reports[i].Progress != nil {
				shown = append(shown, reports[i].Job)
			}
		}
	}
	o.publisher.Publish(ctx, publish.Changes{Reported: shown})
	if failed != nil {
		return nil, store.WaitError(failed)
	}
	return statuses, nil
}

func (o *Outcomes) beat(ctx context.Context, reports []jobs.Report) []beatResult {
	results := make([]beatResult, len(reports))
	ctx, _ = o.traces.Flush(ctx, "heartbeats", 0, nil) // no parent: a lease does not name its request
	o.report(ctx, reports, results)
	return results
}

// report stores what the holders of leases say. Those of a tenant that is not here fail by themselves.
func (o *Outcomes) report(ctx context.Context, reports []jobs.Report, results []beatResult) {
	owner, refuse := func(i int) tenant.ID { return reports[i].Tenant }, func(i int, err error) { results[i].Err = err }
	if places, some := o.moved.Split(len(reports), owner, refuse); some {
		others, again := make([]jobs.Report, len(places)), make([]beatResult, len(places))
		for i, place := range places {
			others[i] = reports[place]
		}
		o.report(ctx, others, again)
		for i, place := range places {
			results[place] = again[i]
		}
		return
	}
	held, err := o.store.Jobs.Report(ctx, reports)
	if o.moved.Note(err) {
		o.report(ctx, reports, results)
		return
	}
	for i := range reports {
		if err != nil {
			results[i].Err = err
		} else if beat, ok := held[reports[i].Lease]; ok {
			results[i].Value = &beat
		}
	}
}
