package submits

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/batch"
)

const (
	// largeSubmission is the weight from which a submission is in the group of large ones: one of 8
	// MB takes as long as many small flushes.
	largeSubmission = pace.FlushJobs / 4
	// guardedFlushes is how many tenants' guarded submits may run at once: each holds a connection,
	// maybe while it waits for another core's lock.
	guardedFlushes = 6
)

type (
	submitGroup = batch.Batcher[*submit.Submission, submit.Answer]
	// submitResult is the result of a submission.
	submitResult = batch.Result[submit.Answer]
)

// flushes are this core's group commits. Plain submits of all tenants share one group, large ones
// another. Guarded ones, which are serialised within a tenant, have one for each tenant: a wait for
// a tenant's lock delays that tenant alone.
type flushes struct {
	store     *cell.Cell
	publisher *publish.Publisher
	traces    publish.Traces
	plain     *submitGroup
	large     *submitGroup

	mu      sync.Mutex
	guarded map[tenant.ID]*guardedGroup
	// slots bounds the guarded flushes.
	slots chan struct{}
	moved store.MovedTenants
}

// guardedGroup is deleted when its last user has left.
type guardedGroup struct {
	group *submitGroup
	users int
}

func newFlushes(store *cell.Cell, publisher *publish.Publisher, traces publish.Traces) *flushes {
	f := &flushes{store: store, publisher: publisher, traces: traces, guarded: map[tenant.ID]*guardedGroup{}, slots: make(chan struct{}, guardedFlushes)}
	f.plain, f.large = newSubmitGroup(f.submitPlain), newSubmitGroup(f.submitPlain)
	return f
}

func newSubmitGroup(flush func(context.Context, []*submit.Submission) []submitResult) *submitGroup {
	return batch.New(batch.Options[*submit.Submission, submit.Answer]{
		Flush: flush, MaxWeight: pace.FlushJobs, Capacity: pace.FlushWaiting, Timeout: pace.FlushTimeout,
		Weight: submissionWeight,
		Owner:  func(s *submit.Submission) any { return s.Tenant },
	})
}

func submissionWeight(s *submit.Submission) int {
	weight := len(s.Jobs)
	for i := range s.Jobs {
		weight += len(s.Jobs[i].Payload) / pace.FlushBytesPerJob
	}
	return weight
}

// submit stores submissions, each with the next flush of its group.
func (f *flushes) submit(ctx context.Context, submissions []*submit.Submission) []submitResult {
	groups := map[*submitGroup][]int{}
	entered := map[tenant.ID]*guardedGroup{}
	for i, s := range submissions {
		group := f.plain
		switch {
		case s.Guarded():
			if entered[s.Tenant] == nil {
				entered[s.Tenant] = f.enter(s.Tenant)
			}
			group = entered[s.Tenant].group
		case submissionWeight(s) >= largeSubmission:
			group = f.large
		}
		groups[group] = append(groups[group], i)
	}
	defer func() {
		for owner, one := range entered {
			f.unuse(owner, one)
		}
	}()
	results := make([]submitResult, len(submissions))
	var all sync.WaitGroup
	for group, places := range groups {
		all.Go(func() {
			mine := make([]*submit.Submission, len(places))
			for i, place := range places {
				mine[i] = submissions[place]
			}
			for i, result := range group.DoAll(ctx, mine) {
				result.Err = submitWaitError(result.Err, mine[i])
				results[places[i]] = result
			}
		})
	}
	all.Wait()
	return results
}

func (f *flushes) enter(owner tenant.ID) *guardedGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.guarded[owner]
	if one == nil {
		one = &guardedGroup{}
		one.group = newSubmitGroup(func(ctx context.Context, submissions []*submit.Submission) []submitResult {
			// A flush whose callers have all left is a user too: a second group would only wait for
			// its lock, with a slot of its own.
			f.use(one)
			defer f.unuse(owner, one)
			return f.submitGuarded(ctx, submissions)
		})
		f.guarded[owner] = one
	}
	one.users++
	return one
}

func (f *flushes) use(one *guardedGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.users++
}

func (f *flushes) unuse(owner tenant.ID, one *guardedGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users == 0 && f.guarded[owner] == one {
		delete(f.guarded, owner)
	}
}

func (f *flushes) submitPlain(ctx context.Context, submissions []*submit.Submission) []submitResult {
	results := make([]submitResult, len(submissions))
	ctx, span := f.span(ctx, submissions)
	defer span.End()
	f.storeAll(ctx, submissions, results)
	return results
}

func (f *flushes) span(ctx context.Context, submissions []*submit.Submission) (context.Context, trace.Span) {
	return f.traces.Flush(ctx, "submits", len(submissions), func(i int) trace.SpanContext { return submissions[i].Span })
}

// submitGuarded waits for a slot without a connection or a lock; more of the tenant's submits
// gather in the group.
func (f *flushes) submitGuarded(ctx context.Context, submissions []*submit.Submission) []submitResult {
	results := make([]submitResult, len(submissions))
	ctx, span := f.span(ctx, submissions) // includes the wait for the slot
	defer span.End()
	select {
	case f.slots <- struct{}{}:
		defer func() { <-f.slots }()
		f.storeAll(ctx, submissions, results)
	case <-ctx.Done():
		for i := range results {
			results[i].Err = fmt.Errorf("%w: other tenants' submits take all connections that these may have", store.ErrOverloaded)
		}
	}
	return results
}

// storeAll stores a flush. If it fails definitely, and not for an unavailable database, each
// request is tried alone: one bad request never fails the others. Those of a tenant that is moved are left out.
func (f *flushes) storeAll(ctx context.Context, submissions []*submit.Submission, results []submitResult) {
	owner, refuse := func(i int) tenant.ID { return submissions[i].Tenant }, func(i int, err error) { results[i].Err = err }
	if others, some := f.moved.Split(len(submissions), owner, refuse); some {
		if len(others) > 0 {
			f.storeParts(ctx, submissions, results, [][]int{others})
		}
		return
	}
	values := make([]submit.Submission, len(submissions))
	for i, s := range submissions {
		values[i] = *s
	}
	answers, err := f.store.Submits.Submit(ctx, values)
	switch {
	case err == nil:
		f.publisher.Publish(ctx, publish.Changes{Stored: answers})
		for i := range answers {
			results[i].Value = answers[i]
		}
	case f.moved.Note(err):
		f.storeAll(ctx, submissions, results)
	case store.Deadlocked(err) && len(byTenant(submissions)) > 1:
		f.storeParts(ctx, submissions, results, byTenant(submissions))
	case len(submissions) == 1 || !store.Definite(err) || errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrOverloaded) ||
		errors.Is(err, submit.ErrIdempotencyInFlight):
		for i := range results {
			results[i].Err = err
		}
	default:
		for i := range submissions {
			f.storeAll(ctx, submissions[i:i+1], results[i:i+1])
		}
	}
}

// byTenant divides a flush that met a deadlock: the places of each tenant's submissions. Tenants without a
// dedupe_key, whose jobs wait for nobody's rows, come first.
func byTenant(submissions []*submit.Submission) [][]int {
	places, keyed := map[tenant.ID][]int{}, map[tenant.ID]bool{}
	var owners []tenant.ID
	for i, s := range submissions {
		if places[s.Tenant] == nil {
			owners = append(owners, s.Tenant)
		}
		places[s.Tenant] = append(places[s.Tenant], i)
		keyed[s.Tenant] = keyed[s.Tenant] || slices.ContainsFunc(s.Jobs, func(j submit.NewJob) bool { return j.DedupeKey != nil })
	}
	parts := make([][]int, 0, len(owners))
	for _, last := range []bool{false, true} {
		for _, owner := range owners {
			if keyed[owner] == last {
				parts = append(parts, places[owner])
			}
		}
	}
	return parts
}

// storeParts stores the parts of a flush one after the other.
func (f *flushes) storeParts(ctx context.Context, submissions []*submit.Submission, results []submitResult, parts [][]int) {
	for _, places := range parts {
		part, stored := make([]*submit.Submission, len(places)), make([]submitResult, len(places))
		for i, place := range places {
			part[i] = submissions[place]
		}
		f.storeAll(ctx, part, stored)
		for i, place := range places {
			results[place] = stored[i]
		}
	}
}

// waiting gives how many submissions wait for a flush, and how many tenants have guarded ones in progress.
func (f *flushes) waiting() (submissions, guardedTenants int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.plain.Waiting() + f.large.Waiting(), len(f.guarded)
}

// submitWaitError is store.WaitError for submits: one with an idempotency key that waited until its timeout has met
// a request in flight with the same key, its own first one or another of its tenant's.
func submitWaitError(err error, s *submit.Submission) error {
	if s.Idempotency != nil && (errors.Is(err, batch.ErrLeft) || errors.Is(err, batch.ErrUnknown) || store.LockTimedOut(err)) {
		return fmt.Errorf("%w: %w", submit.ErrIdempotencyInFlight, err)
	}
	return store.WaitError(err)
}
