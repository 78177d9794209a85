package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// stepsAtOnce is how many steps run at once: those of capped tenants may wait for a lock.
	stepsAtOnce = 3
	// stepSchedules is how many schedules one transaction works off. After each of several Run rests
	// for stepPace times as long as it took: a burst of ticks leaves the processors to claims.
	stepSchedules = 20
	stepPace      = 1.2
	// stepLockWait bounds the wait for the lock of a tenant: the ticks of others wait too.
	stepLockWait = 500 * time.Millisecond
	// failurePause is how long schedules are left alone whose step failed for a reason of their own,
	// overloadPause those whose job was refused as overloaded.
	failurePause  = 30 * time.Second
	overloadPause = time.Second
)

// RunResult is what a run has done.
type RunResult struct {
	// Due is how many schedules were listed, Worked how many were worked off.
	Due, Worked int
	// Contended says that another core works them off too, and that some were left to it.
	Contended bool
}

// runner works off candidates.
type runner struct {
	*Schedules
	// publish is called after the commit of each step, by several goroutines.
	publish func(*Step)
}

// Run works off candidates whose templates are filled in, and calls publish after the commit of each
// step, of several at once. A failure of one does not stop the others.
func (s *Schedules) Run(ctx context.Context, candidates []Candidate, publish func(*Step)) (run RunResult, err error) {
	ctx = caps.WithLockWait(ctx, stepLockWait)
	r := runner{s, publish}
	var errs []error
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, stepsAtOnce)
	for _, some := range byLock(candidates) {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			worked, contended, err := r.pace(ctx, some)
			mu.Lock()
			defer mu.Unlock()
			run.Worked, errs = run.Worked+worked, append(errs, err)
			// That one tenant's are held is no reason to leave those of others alone.
			run.Contended = run.Contended || contended && !some[0].Template.Guarded()
		})
	}
	group.Wait()
	run.Contended = run.Contended || run.Worked == 0
	return run, errors.Join(errs...)
}

// byLock gives candidates that go under their tenant's lock for each tenant, and all others
// together: a wait for a tenant's lock delays that tenant alone.
func byLock(candidates []Candidate) [][]Candidate {
	var plain []Candidate
	var groups [][]Candidate
	places := map[tenant.ID]int{}
	for i := range candidates {
		one := candidates[i]
		if !one.Template.Guarded() {
			plain = append(plain, one)
			continue
		}
		place, known := places[one.TenantID]
		if !known {
			place = len(groups)
			places[one.TenantID] = place
			groups = append(groups, nil)
		}
		groups[place] = append(groups[place], one)
	}
	if len(plain) > 0 {
		groups = slices.Insert(groups, 0, plain)
	}
	return groups
}

// pace works candidates off in steps, with rests between them. It stops at a step of which
// nothing is left: another core is at the same ones, and two would take twice the processors.
func (r runner) pace(ctx context.Context, candidates []Candidate) (worked int, contended bool, err error) {
	var errs []error
	for some := range slices.Chunk(candidates, stepSchedules) {
		begun := time.Now()
		n, err := r.steps(ctx, some)
		worked, errs = worked+n, append(errs, err)
		if n == 0 && err == nil {
			return worked, true, errors.Join(errs...)
		}
		if len(candidates) > stepSchedules && wait.For(ctx, time.Duration(stepPace*float64(time.Since(begun)))) != nil {
			break // stopped; the others stay due
		}
	}
	return worked, false, errors.Join(errs...)
}

// steps works candidates off in one transaction. If it fails definitely, and not for an
// unavailable database, each is tried alone, and one that fails alone is left alone for a while.
func (r runner) steps(ctx context.Context, candidates []Candidate) (worked int, err error) {
	step, err := r.step(ctx, candidates)
	switch {
	case err == nil:
		r.publish(&step)
		return step.Worked, nil
	case store.LockTimedOut(err):
		return 0, nil // as where another core works them off
	case !store.Definite(err) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) || ctx.Err() != nil:
		return 0, err
	case len(candidates) == 1:
		pause := failurePause
		if refused, ok := errors.AsType[*problem.Problem](err); ok && refused.Code == problem.Overloaded {
			pause = overloadPause
		}
		err = fmt.Errorf("schedule %q of tenant %s: %w", candidates[0].Name, candidates[0].TenantID, err)
		return 0, errors.Join(err, r.postpone(ctx, candidates, pause))
	}
	var errs []error
	for i := range candidates {
		n, err := r.steps(ctx, candidates[i:i+1])
		worked, errs = worked+n, append(errs, err)
	}
	return worked, errors.Join(errs...)
}
