package claims

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// mostStatements bounds the statements of one claim; the rest is left to the next.
	mostStatements = 50
	// mostMoves and mostBusy bound the repeats of one scan: after misrouted jobs were moved, and
	// for tenants whose lock another core's claim holds.
	mostMoves = 20
	mostBusy  = 20
	busyPause = 8 * time.Millisecond
)

// leaser leases jobs: it runs the statements that claims are planned to be.
type leaser struct {
	store     *cell.Cell
	planner   *planner
	polls     *Polls
	publisher *publish.Publisher
	// locks serialise claims under a tenant's running cap.
	locks cache.TenantLocks
	log   *slog.Logger
}

// lease runs a claim; with probe, it probes first where no ready list is known.
func (l *leaser) lease(ctx context.Context, claim *leasing, probe bool) {
	if claim.run(ctx); claim.err != nil || len(claim.jobs) > 0 || !probe {
		return
	}
	var found bool
	if found, claim.err = l.polls.probe(ctx, claim.filter); found && claim.err == nil {
		claim.run(ctx)
	}
}

// leasing is one claim while its statements run.
type leasing struct {
	*leaser

	drr *scheduler.DRR
	// density is how many jobs the lists of the last statement had.
	density *listDensity
	filter  *scheduler.Filter
	// workers take jobs in this order; jobs are those leased so far.
	workers []claim.Worker
	jobs    []claim.Job
	// bytes is the size of jobs; full says that no more are taken.
	bytes int
	full  bool
	// without are users whose misrouted jobs could not be moved, busy tenants whose lock another
	// core holds.
	without []string
	busy    map[tenant.ID]bool
	// err is what ended it; jobs leased before are still delivered.
	err error

	// tried counts the repeats.
	tried struct{ moves, waits int }
}

// maxJobSize is above the size of a job in an answer.
const maxJobSize = 3 * api.MaxPayload

// run takes jobs until the workers have what they asked for, the claim's bytes are used up, or no
// ready list is left.
func (l *leasing) run(ctx context.Context) {
	most := 0
	for _, worker := range l.workers {
		most += worker.Max
	}
	for range mostStatements {
		l.full = l.full || l.bytes > api.MaxClaimBytes-maxJobSize
		if len(l.jobs) >= most || l.full {
			return
		}
		made := l.planner.plan(l.drr, l.left(), most-len(l.jobs), l.density.lists(most-len(l.jobs)), l.busy)
		before := len(l.jobs)
		if len(made.claim.Lanes) == 0 {
			if !l.waitForBusy(ctx) {
				return
			}
			continue
		}
		var more bool
		if more, l.err = l.step(ctx, &made); l.err != nil || !more {
			return
		}
		*l.density = listDensity{scanned: len(made.lists), found: len(l.jobs) - before}
	}
}

// listDensity is how many jobs were found in how many lists.
type listDensity struct{ scanned, found int }

// lists is how many lists a statement for n jobs has: where few were found in each list, as many as
// it needs by that, otherwise no more than a few more than jobs.
func (l *listDensity) lists(n int) int {
	needed := n*l.scanned/max(l.found, 1) + extraLists
	return min(max(min(n+extraLists, listsPerClaim), needed), mostLists)
}

// left is the filter with the capacity that is left after the jobs taken so far.
func (l *leasing) left() *scheduler.Filter {
	if l.filter.Capacity == nil || len(l.jobs) == 0 {
		return l.filter
	}
	taken := map[tenant.QueueKey]int{}
	for i := range l.jobs {
		taken[tenant.QueueKey{Tenant: l.jobs[i].TenantID, Name: l.jobs[i].Queue}]++
	}
	left := *l.filter
	left.Capacity = func() scheduler.Capacity {
		capacity := l.filter.Capacity()
		for key, n := range taken {
			capacity.Take(key, n)
		}
		return capacity
	}
	return &left
}

// step runs one statement and applies its result. more says that another may find more.
func (l *leasing) step(ctx context.Context, made *plan) (more bool, err error) {
	made.claim.Owner, made.claim.Without = l.filter.Owner, l.without
	made.claim.Workers, made.claim.Bytes = workersFrom(l.workers, len(l.jobs)), api.MaxClaimBytes-l.bytes
	if made.claim.LeaseID, err = uuid.NewRandom(); err != nil {
		return false, fmt.Errorf("claims: lease id: %w", err)
	}
	leave, err := l.locks.Enter(ctx, lockedTenants(made.claim.Lanes))
	if err != nil {
		return false, fmt.Errorf("%w: other claims of a tenant under a cap take all the time", store.ErrOverloaded)
	}
	found, err := l.store.Claims.Claim(ctx, made.claim)
	leave()
	if err != nil {
		l.planner.lists.Failed(made.lists)
		return false, err
	}
	l.planner.lists.Scanned(made.lists, found.Scanned)
	l.jobs = append(l.jobs, found.Jobs...)
	for i := range found.Jobs {
		l.bytes += found.Jobs[i].Size()
	}
	if l.filter.Owner == tenant.Platform || l.filter.Push { // otherwise there is nobody to share with
		l.charge(made, found.Jobs)
	}
	if found.Cut {
		l.full = true
		l.publisher.Wake(l.planner.lists.Cut(made.lists, found.Scanned))
	}
	for _, owner := range found.Busy {
		l.busy[owner] = true
	}
	more = len(found.Jobs) > 0 || len(found.Busy) > 0 || slices.ContainsFunc(found.Scanned, func(w claim.ScanProgress) bool { return w.Exhausted })
	if len(found.Misrouted) > 0 && l.tried.moves < mostMoves {
		l.tried.moves++
		l.without = append(l.without, movedUsers(found.Misrouted, l.moveMisrouted(ctx, found.Misrouted))...)
		more = true
	}
	return more, nil
}

// charge counts leased jobs against their tenants' shares.
func (l *leasing) charge(made *plan, jobs []claim.Job) {
	starts := make([]scheduler.Start, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		starts[i] = scheduler.Start{
			Job: job.ID, Lane: job.LaneID, Queue: tenant.QueueKey{Tenant: job.TenantID, Name: job.Queue}, Weight: made.weight(job.TenantID),
		}
	}
	l.planner.times.Charge(l.drr, starts)
}

// waitForBusy waits busyPause for tenants whose lock another core holds. It does not wait once
// there are jobs.
func (l *leasing) waitForBusy(ctx context.Context) bool {
	if len(l.busy) == 0 || len(l.jobs) > 0 || l.tried.waits == mostBusy {
		return false
	}
	l.tried.waits++
	clear(l.busy)
	_ = wait.About(ctx, busyPause)
	return ctx.Err() == nil
}

// workersFrom subtracts the first n jobs from what the workers ask for.
func workersFrom(workers []claim.Worker, n int) []claim.Worker {
	left := make([]claim.Worker, 0, len(workers))
	for _, worker := range workers {
		has := min(n, worker.Max)
		n -= has
		if worker.Max -= has; worker.Max > 0 {
			left = append(left, worker)
		}
	}
	return left
}

// lockedTenants are the tenants among the lanes under a running cap or rates. Their claims are
// serialised, and wait in memory, without a connection each.
func lockedTenants(lanes []claim.Lane) []tenant.ID {
	var ids []tenant.ID
	for i := range lanes {
		for _, c := range lanes[i].Caps {
			ids = append(ids, c.Tenant)
		}
		if len(lanes[i].Rates) > 0 || lanes[i].Budgeted {
			ids = append(ids, lanes[i].Tenant)
		}
	}
	return ids
}

// moveMisrouted moves jobs whose users now have a running cap into those users' lanes. A job that
// is not moved now is found again by the next claim.
func (l *leaser) moveMisrouted(ctx context.Context, misrouted []claim.MisroutedJob) (moved []claim.MisroutedJob) {
	var to []lanes.ID
	var ready []jobs.Ready
	for _, one := range misrouted {
		lane, known := l.planner.cached.Lanes.ByID(one.Lane)
		if !known {
			continue
		}
		own, err := l.planner.cached.Maker.EnsureOne(ctx, lane.Of(one.User))
		if err != nil {
			l.log.WarnContext(ctx, "a job stays in a lane that its user's cap does not reach", "lane", one.Lane, "error", err)
			continue
		}
		moved, to = append(moved, one), append(to, own.ID)
		target := one.Ready
		target.Lane = own.ID
		ready = append(ready, target)
	}
	if len(moved) == 0 {
		return nil
	}
	if err := l.store.Claims.Move(ctx, moved, to); err != nil {
		l.log.WarnContext(ctx, "jobs of users with a running cap are not moved to their lanes", "error", err)
		return nil
	}
	l.publisher.Wake(ready)
	return moved
}

// movedUsers are the users of misrouted jobs that were not moved.
func movedUsers(misrouted, moved []claim.MisroutedJob) []string {
	done := map[uuid.UUID]bool{}
	for _, one := range moved {
		done[one.ID] = true
	}
	var users []string
	for _, one := range misrouted {
		if !done[one.ID] && !slices.Contains(users, one.User) {
			users = append(users, one.User)
		}
	}
	return users
}
