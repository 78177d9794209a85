package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// lanesPerClaim is how many lanes one statement looks at.
	lanesPerClaim = 25
	// mostMoves and mostBusy bound how often one look is made again: for strays that were
	// moved, and for tenants whose lock another core's claim had.
	mostMoves = 20
	mostBusy  = 20
	busyPause = 8 * time.Millisecond
	// statementTime bounds a claim that its caller no longer waits for.
	statementTime = 10 * time.Second
)

// ClaimCall is a worker's request for jobs.
type ClaimCall struct {
	// Owner is the worker's tenant, or tenant.Platform.
	Owner    tenant.ID
	WorkerID string
	Queues   []string
	// Tags are the worker's; nil takes those that it registered with.
	Tags *[]string
	Max  int
	// Wait is how long to wait for the first job.
	Wait time.Duration
	// Push claims from the queues in push mode, of any tenants, as core's own executor
	// does: WorkerID is no worker in the table then. Room, see Filter. Whoever sends on
	// Again makes a waiting claim look again: there may be room where there was none.
	Push  bool
	Room  func(queue.QueueKey) int
	Again <-chan struct{}
}

// turn rotates the lanes that claims begin with, so that no lane is always last.
type turn struct{ n atomic.Uint64 }

func (t *turn) rotate(lanes []queue.ClaimLane) []queue.ClaimLane {
	if len(lanes) < 2 {
		return lanes
	}
	start := int(t.n.Add(1) % uint64(len(lanes))) //nolint:gosec // below len
	return append(append(make([]queue.ClaimLane, 0, len(lanes)), lanes[start:]...), lanes[:start]...)
}

// Claim leases up to Max jobs to a worker. With nothing there it waits, without a
// connection, until work arrives or Wait is over; nothing is then no error.
// A caller that has left gets nothing: what was leased to it goes back at once,
// attempt included.
func (d *Dispatcher) Claim(ctx context.Context, call ClaimCall) ([]queue.Claimed, error) {
	filter := &Filter{Owner: call.Owner, Queues: call.Queues, Push: call.Push, Room: call.Room}
	if !call.Push {
		tags, err := d.workers.seen(ctx, d.store, call)
		if err != nil {
			return nil, err
		}
		filter.Tags = tags
		if call.Wait > 0 { // who only looks in is no worker to wait for
			d.served.seen(call.Owner, call.Queues)
		}
	}
	if call.Wait <= 0 {
		return d.take(ctx, call, filter)
	}
	return d.takeOrWait(ctx, call, filter)
}

func (d *Dispatcher) takeOrWait(ctx context.Context, call ClaimCall, filter *Filter) ([]queue.Claimed, error) {
	over := time.NewTimer(call.Wait)
	defer over.Stop()
	d.metrics.Parked.Inc()
	defer d.metrics.Parked.Dec()
	w := d.parking.park(filter)
	// Wake-ups that this claim had and did not use; whoever else waits for those
	// jobs must not sleep beside them.
	var unused []queue.LaneID
	defer func() {
		if lane, pending := d.parking.leave(w); pending {
			unused = append(unused, lane)
		}
		d.WakeHere(unused)
	}()
	var wokenFor queue.LaneID // 0: not yet
	for {
		jobs, err := d.take(ctx, call, filter)
		if len(jobs) > 0 || err != nil {
			// It may have taken other jobs than the one it was woken for, or have left.
			// Where the database failed, nobody else need hear of it: the poll will do.
			if wokenFor != 0 && (err == nil || ctx.Err() != nil) && !takenFrom(wokenFor, jobs) {
				unused = append(unused, wokenFor)
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
		case wokenFor = <-w.woken:
		case <-call.Again:
		}
	}
}

func takenFrom(lane queue.LaneID, jobs []queue.Claimed) bool {
	return slices.ContainsFunc(jobs, func(c queue.Claimed) bool { return c.LaneID == lane })
}

// take looks once through the lanes, a few in each statement.
func (d *Dispatcher) take(ctx context.Context, call ClaimCall, filter *Filter) ([]queue.Claimed, error) {
	lanes := d.turn.rotate(d.lanes.Claimable(filter, d.underCaps))
	// The statements run to their end even when the caller goes: a claim that is cut
	// off in the middle may have leased jobs that nobody knows of.
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	if len(lanes) > lanesPerClaim {
		ready, err := d.readyOf(finish, lanes)
		if err != nil {
			return nil, err
		}
		lanes = ready
	}
	var taken []queue.Claimed
	busy, moves := 0, 0
	var without []string // users whose strays could not be moved
	for len(lanes) > 0 && len(taken) < call.Max && ctx.Err() == nil {
		some := lanes[:min(lanesPerClaim, len(lanes))]
		lanes = lanes[len(some):]
		lease, err := uuid.NewRandom()
		if err != nil {
			return nil, fmt.Errorf("dispatch: lease id: %w", err)
		}
		leave, err := d.claimGate.enter(ctx, cappedTenants(some))
		if err != nil {
			break // the caller has left
		}
		found, err := d.store.Claim(finish, queue.Claim{
			Lanes: some, Max: call.Max - len(taken), WorkerID: call.WorkerID, Owner: call.Owner, LeaseID: lease, Without: without,
		})
		leave()
		if err != nil {
			d.GiveBack(ctx, taken)
			return nil, err
		}
		taken = append(taken, found.Jobs...)
		if moved := d.moveStrays(finish, found.Strays); len(found.Strays) > 0 && moves < mostMoves {
			moves++
			without = append(without, leftUsers(found.Strays, moved)...)
			lanes = d.again(filter, found.Strays, lanes)
		}
		if found.Busy && len(found.Jobs) == 0 && busy < mostBusy {
			busy++
			pause(ctx, busyPause)
			lanes = append(lanes, some...)
		}
	}
	if ctx.Err() != nil {
		d.GiveBack(ctx, taken)
		return nil, ctx.Err()
	}
	for i := range taken {
		d.Changed(taken[i].ID)
		d.metrics.QueueWait.Observe(taken[i].StartedAt.Sub(taken[i].ReadyAt).Seconds())
	}
	d.metrics.Claimed.Add(float64(len(taken)))
	return taken, nil
}

// cappedTenants are the tenants among the lanes under a running cap. Their claims go
// one at a time, and wait for each other in memory, not with a connection each.
func cappedTenants(lanes []queue.ClaimLane) []tenant.ID {
	var ids []tenant.ID
	for i := range lanes {
		for _, c := range lanes[i].Caps {
			ids = append(ids, c.Tenant)
		}
	}
	return ids
}

func pause(ctx context.Context, about time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(about/2 + rand.N(about)): //nolint:gosec // spreads cores, guards nothing
	}
}

// underCaps adds the running caps that a lane's jobs come under.
func (d *Dispatcher) underCaps(claim *queue.ClaimLane, lane queue.Lane, settings queue.QueueSettings) {
	claim.Caps = d.runningCaps(lane, settings)
	if lane.User == "" && d.limits.mayCapUsers(lane.Tenant) {
		claim.Strayed = func(user string) bool { return d.limits.For(lane.Tenant, user).UserMaxRunning != nil }
	}
}

// moveStrays puts jobs whose users have got a running cap since into those users'
// lanes. What cannot be moved now is found again by the next claim.
func (d *Dispatcher) moveStrays(ctx context.Context, strays []queue.Stray) (moved []queue.Stray) {
	if len(strays) == 0 {
		return nil
	}
	var to []queue.LaneID
	for _, stray := range strays {
		lane, known := d.lanes.ByID(stray.Lane)
		if !known {
			continue
		}
		own, err := d.lanes.For(ctx, lane.Of(stray.User))
		if err != nil {
			d.log.WarnContext(ctx, "a job stays in a lane that its user's cap does not reach", "lane", stray.Lane, "error", err)
			continue
		}
		moved, to = append(moved, stray), append(to, own.ID)
	}
	if err := d.store.Move(ctx, moved, to); err != nil {
		d.log.WarnContext(ctx, "jobs of users with a running cap are not moved to their lanes", "error", err)
		return nil
	}
	return moved
}

// leftUsers are the users of strays that were not moved.
func leftUsers(strays, moved []queue.Stray) []string {
	done := map[uuid.UUID]bool{}
	for _, stray := range moved {
		done[stray.ID] = true
	}
	var users []string
	for _, stray := range strays {
		if !done[stray.ID] && !slices.Contains(users, stray.User) {
			users = append(users, stray.User)
		}
	}
	return users
}

// again puts lanes in which there were strays, and the lanes that these moved to,
// in front of those that are still to be looked at.
func (d *Dispatcher) again(filter *Filter, strays []queue.Stray, left []queue.ClaimLane) []queue.ClaimLane {
	users := map[string]bool{}
	from := map[queue.LaneID]bool{}
	for _, stray := range strays {
		users[stray.User], from[stray.Lane] = true, true
	}
	var front []queue.ClaimLane
	for _, lane := range d.lanes.Claimable(filter, d.underCaps) {
		known, _ := d.lanes.ByID(lane.ID)
		inLeft := slices.ContainsFunc(left, func(l queue.ClaimLane) bool { return l.ID == lane.ID })
		if !inLeft && (from[lane.ID] || known.User != "" && users[known.User]) {
			front = append(front, lane)
		}
	}
	return append(front, left...)
}

func (d *Dispatcher) readyOf(ctx context.Context, lanes []queue.ClaimLane) ([]queue.ClaimLane, error) {
	ids := make([]queue.LaneID, len(lanes))
	for i, lane := range lanes {
		ids[i] = lane.ID
	}
	found, err := d.store.ReadyLanes(ctx, ids)
	if err != nil {
		return nil, err
	}
	ready := make(map[queue.LaneID]bool, len(found))
	for _, id := range found {
		ready[id] = true
	}
	kept := lanes[:0]
	for _, lane := range lanes {
		if ready[lane.ID] {
			kept = append(kept, lane)
		}
	}
	return kept, nil
}

// GiveBack returns jobs that never reached their worker, attempt included. It
// does so even when ctx has ended; what it cannot return comes back when its
// lease runs out.
func (d *Dispatcher) GiveBack(ctx context.Context, jobs []queue.Claimed) {
	if len(jobs) == 0 {
		return
	}
	finish, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTime)
	defer cancel()
	leases := make([]job.Lease, len(jobs))
	for i := range jobs {
		leases[i] = jobs[i].Lease()
	}
	var ready []queue.LaneID
	for _, ended := range d.store.GiveBack(finish, leases) {
		switch {
		case ended.Err == nil && ended.Ready != 0:
			ready = append(ready, ended.Ready)
			d.metrics.Requeued.WithLabelValues("undelivered").Inc()
		case ended.Err != nil && !errors.Is(ended.Err, queue.ErrLeaseLost):
			d.log.WarnContext(ctx, "a claimed job could not be given back; its lease will run out", "error", ended.Err)
		}
	}
	d.Wake(ready)
}

// Heartbeat extends leases and answers each in the order given.
func (d *Dispatcher) Heartbeat(ctx context.Context, leases []job.Lease) ([]api.LeaseStatus, error) {
	statuses := make([]api.LeaseStatus, len(leases))
	for i, result := range d.flushes.beats.DoAll(ctx, 0, leases) {
		if result.Err != nil {
			return nil, left(result.Err)
		}
		statuses[i] = api.LeaseStatus{JobID: leases[i].Job.String(), Status: api.LeaseLost}
		if beat := result.Value; beat != nil {
			statuses[i].Status, statuses[i].LeaseExpiresAt = api.LeaseOK, &api.Time{Time: beat.LeaseExpiresAt}
			left := beat.LeaseExpiresAt.Sub(beat.Now).Milliseconds()
			statuses[i].LeaseMS = &left
			if beat.CancelRequested {
				statuses[i].Status = api.LeaseCancel
			}
		}
	}
	return statuses, nil
}

// End ends attempts as their holders say, with the next group commit, and wakes
// whoever can take what went back.
func (d *Dispatcher) End(ctx context.Context, endings []queue.Ending) []queue.Ended {
	return d.flushes.end(ctx, endings)
}

// ended tells of what a flush has ended.
func (d *Dispatcher) ended(endings []queue.Ending, ended []queue.Ended) {
	var ready []queue.LaneID
	var over []uuid.UUID
	waits := false
	for i := range ended {
		if ended[i].Err != nil || ended[i].Replayed {
			continue
		}
		d.count(&endings[i], &ended[i])
		if id := endings[i].Lease.Job; job.State(ended[i].Outcome.State).Terminal() {
			over = append(over, id)
		} else {
			d.Changed(id)
		}
		if ended[i].Ready != 0 {
			ready = append(ready, ended[i].Ready)
		} else if lane, known := d.lanes.ByID(ended[i].Lane); known && d.isCapped(lane) {
			ready = append(ready, lane.ID) // there is room for another of its jobs now
		}
		waits = waits || ended[i].Scheduled
	}
	d.Ended(over...)
	d.Wake(ready)
	if waits {
		d.scheduled()
	}
}

// isCapped says whether the lane's jobs come under a running cap.
func (d *Dispatcher) isCapped(lane queue.Lane) bool {
	return len(d.runningCaps(lane, d.lanes.Settings(lane.Tenant, lane.Queue))) > 0
}

func (d *Dispatcher) count(ending *queue.Ending, ended *queue.Ended) {
	d.metrics.Outcomes.WithLabelValues(ending.Kind).Inc()
	if ending.Kind == api.KindComplete {
		d.metrics.Execution.Observe(ended.Execution.Seconds())
		d.metrics.EndToEnd.Observe(ended.EndToEnd.Seconds())
	}
	if ended.Outcome.DeadReason != nil {
		d.metrics.DeadLettered.WithLabelValues(*ended.Outcome.DeadReason).Inc()
	}
}
