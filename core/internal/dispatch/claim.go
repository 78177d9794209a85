package dispatch

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// statementTime bounds a statement whose caller has left.
const statementTime = 10 * time.Second

// ClaimCall is a worker's request for jobs.
type ClaimCall struct {
	// Owner is the worker's tenant, or tenant.Platform.
	Owner    tenant.ID
	WorkerID string
	Queues   []string
	// Types are those of the jobs that it takes; nil for all types.
	Types []string
	// Tags are the worker's; nil takes those that it registered with.
	Tags *[]string
	Max  int
	// Wait is how long to wait for the first job.
	Wait time.Duration
	// Push claims from the queues in push mode, of any tenants, for core's own executor: WorkerID
	// is then not in the workers table. For Capacity, see Filter.Capacity. A value on CapacityReleased makes a
	// waiting claim scan again: capacity may have been released.
	Push             bool
	Capacity         func() scheduler.Capacity
	CapacityReleased <-chan struct{}
}

// Claim leases up to Max jobs to a worker. Without ready jobs it waits, without a connection, until
// work arrives or Wait is over; an empty answer is no error. Jobs leased for a caller that has left
// are returned at once, attempt included; those leased for a worker that leaves meanwhile, too.
func (d *Dispatcher) Claim(ctx context.Context, call ClaimCall) ([]claim.Job, error) {
	filter := &scheduler.Filter{Owner: call.Owner, Queues: call.Queues, Types: setOf(call.Types), Push: call.Push, Capacity: call.Capacity}
	if call.Push {
		return d.takeOrWait(ctx, call, filter, nil)
	}
	key := cache.WorkerKey{Owner: call.Owner, ID: call.WorkerID}
	left, done := d.callers.enter(key)
	defer done()
	tags, err := d.workers.Seen(ctx, d.store, key, call.Queues, call.Types, call.Tags)
	if isClosed(left) { // it left meanwhile, and this claim may have made its row again
		return nil, d.removeAgain(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	filter.Tags = tags
	if call.Wait > 0 { // a claim without wait does not serve the queue
		d.served.Seen(call.Owner, call.Queues, call.Types)
	}
	jobs, err := d.takeOrWait(ctx, call, filter, left)
	if len(jobs) > 0 && isClosed(left) { // leased after its leases were given back
		d.GiveBack(ctx, jobs)
		return nil, nil
	}
	return jobs, err
}

// setOf is the set of names; nil for none.
func setOf(names []string) map[string]bool {
	if len(names) == 0 {
		return nil
	}
	set := make(map[string]bool, len(names))
	for _, name := range names {
		set[name] = true
	}
	return set
}

// takeOrWait scans, and where it finds nothing waits until work arrives, Wait is over, or the worker
// has left.
func (d *Dispatcher) takeOrWait(ctx context.Context, call ClaimCall, filter *scheduler.Filter, left <-chan struct{}) ([]claim.Job, error) {
	d.polls.claimed.Store(time.Now().UnixNano())
	if call.Wait <= 0 {
		return d.take(ctx, call, filter, true)
	}
	over := time.NewTimer(call.Wait)
	defer over.Stop()
	d.metrics.Parked.Inc()
	defer d.metrics.Parked.Dec()
	moved, done := d.callers.enter(allOf(call.Owner))
	defer done()
	w := d.parking.Park(filter)
	// Wake-ups that this claim did not use go to other claims for those jobs.
	var unused []jobs.Waiting
	defer func() {
		if lane, pending := d.parking.Leave(w); pending {
			unused = append(unused, scanAgain(lane))
		}
		d.WakeHere(unused)
	}()
	var wokenFor lanes.ID // 0: none yet
	for {
		jobs, err := d.take(ctx, call, filter, false)
		if len(jobs) > 0 || err != nil {
			// It may have taken other jobs than the one it was woken for, or have left. Where the
			// database failed, no other claim is woken: the fallback poll finds the job.
			if wokenFor != 0 && (err == nil || ctx.Err() != nil) && !takenFrom(wokenFor, jobs) {
				unused = append(unused, scanAgain(wokenFor))
			}
			return jobs, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-over.C:
			return nil, nil
		case <-d.draining:
			return nil, nil
		case <-moved:
			return nil, nil
		case <-left:
			return nil, nil
		case wokenFor = <-w.Woken:
			d.parking.Rearm(w)
		case <-call.CapacityReleased:
		}
	}
}

// take scans once, in one statement with other claims from the same lanes.
func (d *Dispatcher) take(ctx context.Context, call ClaimCall, filter *scheduler.Filter, probe bool) ([]claim.Job, error) {
	return d.claims.take(ctx, filter, claim.Worker{ID: call.WorkerID, Max: call.Max}, probe || !d.scannedLately())
}

func takenFrom(lane lanes.ID, jobs []claim.Job) bool {
	return slices.ContainsFunc(jobs, func(c claim.Job) bool { return c.LaneID == lane })
}

// GiveBack returns jobs that were not delivered, attempt included, even when ctx has ended. A job
// that it cannot return waits for the end of its lease.
func (d *Dispatcher) GiveBack(ctx context.Context, found []claim.Job) {
	if len(found) == 0 {
		return
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	leases := make([]job.Lease, len(found))
	for i := range found {
		leases[i] = found[i].Lease()
	}
	var ready []jobs.Ready
	given := d.store.Jobs.GiveBack(finish, leases)
	d.countEnded(given)
	for i, ended := range given {
		switch {
		case ended.Err == nil && ended.Ready != nil:
			ready = d.Released(append(ready, *ended.Ready), ended.Lane)
			d.metrics.Requeued.WithLabelValues(metrics.Undelivered).Inc()
			d.Changed(leases[i].Job)
		case ended.Err == nil && !ended.Replayed: // cancelled since the claim
			ready = d.Released(ready, ended.Lane)
			d.metrics.Cancelled.Inc()
			d.Ended(leases[i].Job)
		case ended.Err != nil && !errors.Is(ended.Err, jobs.ErrLeaseLost):
			d.log.WarnContext(ctx, "a claimed job could not be given back; its lease will run out", "error", ended.Err)
		}
	}
	d.Wake(ready)
}

// Heartbeat extends leases, with what their holders report, and answers each in the order given.
func (d *Dispatcher) Heartbeat(ctx context.Context, reports []jobs.Report) ([]api.LeaseStatus, error) {
	statuses := make([]api.LeaseStatus, len(reports))
	for i, result := range d.flushes.Heartbeat(ctx, reports) {
		if result.Err != nil {
			return nil, result.Err
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
				d.watches.WakeForVersion(reports[i].Job)
			}
		}
	}
	return statuses, nil
}

// End ends attempts with the next group commit, and wakes claims for jobs that are ready again.
func (d *Dispatcher) End(ctx context.Context, endings []jobs.Ending) []jobs.Ended {
	return d.flushes.End(ctx, endings)
}

// ended publishes the results of a flush of outcomes.
func (d *Dispatcher) ended(ctx context.Context, endings []jobs.Ending, ended []jobs.Ended) {
	var ready []jobs.Ready
	var over []uuid.UUID
	waits := false
	d.countEnded(ended)
	for i := range ended {
		if ended[i].Err != nil || ended[i].Replayed {
			continue
		}
		d.count(&ended[i])
		d.recordAttempt(ctx, ended[i].Attempt, ended[i].Kind, ended[i].Outcome.State, failureOf(&endings[i]), endings[i].Logged)
		if id := endings[i].Lease.Job; job.State(ended[i].Outcome.State).Terminal() {
			over = append(over, id)
		} else {
			d.Changed(id)
		}
		if ended[i].Ready != nil {
			ready = append(ready, *ended[i].Ready)
		}
		ready = d.Released(ready, ended[i].Lane)
		waits = waits || ended[i].Scheduled
	}
	d.Ended(over...)
	d.Wake(ready)
	if waits {
		d.scheduled()
	}
}

// failureOf is the error type of a failed attempt, "" for other kinds. The message is left out: it
// is the tenant's, and may be long.
func failureOf(ending *jobs.Ending) string {
	switch {
	case ending.Kind != api.KindFail:
		return ""
	case ending.Error == nil || ending.Error.Type == "":
		return "failed"
	}
	return ending.Error.Type
}

// Released appends that a job of a lane no longer runs, if it was under a cap.
func (d *Dispatcher) Released(ready []jobs.Ready, id lanes.ID) []jobs.Ready {
	if lane, known := d.lanes.ByID(id); known && d.isCapped(lane) {
		ready = append(ready, jobs.Ready{Lane: lane.ID, Priority: jobs.CapacityReleased})
	}
	return ready
}

// isCapped says whether the lane's jobs are under a running cap.
func (d *Dispatcher) isCapped(lane lanes.Lane) bool {
	return len(d.runningCaps(lane, d.lanes.Settings(lane.Tenant, lane.Queue))) > 0
}

func (d *Dispatcher) count(ended *jobs.Ended) {
	d.metrics.Outcomes.WithLabelValues(ended.Kind).Inc()
	switch job.State(ended.Outcome.State) {
	case job.Completed:
		d.metrics.Execution.Observe(ended.Execution.Seconds())
		d.metrics.EndToEnd.Observe(ended.EndToEnd.Seconds())
	case job.DeadLetter:
		d.metrics.DeadLettered.WithLabelValues(*ended.Outcome.DeadReason).Inc()
	case job.Cancelled:
		d.metrics.Cancelled.Inc()
	default:
		d.metrics.Requeued.WithLabelValues(ended.Kind).Inc()
	}
}
