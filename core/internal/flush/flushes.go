package flush

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/batch"
)

const (
	// MaxJobs bounds one commit: the best of the measured sizes, and the first request in it does
	// not wait long for the last.
	MaxJobs = 1000
	// bytesPerJob is the payload or result size from which one job counts as more: a flush is then
	// at most about 8 MB.
	bytesPerJob = 8 << 10
	// largeSubmission is the weight from which a submission is in the group of large ones: one of 8
	// MB takes as long as many small flushes.
	largeSubmission = MaxJobs / 4
	// MaxWaiting is how many requests may wait for a flush; more are refused at once (D8).
	MaxWaiting = 20_000
	// Timeout bounds a flush whose callers have all left.
	Timeout = 10 * time.Second
	// guardedFlushes is how many tenants' guarded submits may run at once: each holds a connection,
	// maybe while it waits for another core's lock.
	guardedFlushes = 6
)

type (
	submitGroup = batch.Batcher[*submit.Submission, submit.Answer]
	// SubmitResult is the result of a submission.
	SubmitResult = batch.Result[submit.Answer]
	endResult    = batch.Result[jobs.Ended]
	// HeartbeatResult is the state of a lease; nil for a lost one.
	HeartbeatResult = batch.Result[*jobs.Beat]
)

// Flushes are this core's group commits. Plain submits of all tenants share one group, large ones
// another. Guarded ones, which are serialised within a tenant, have one for each tenant: a wait for
// a tenant's lock delays that tenant alone.
type Flushes struct {
	store  *cell.Cell
	traces Traces
	// onStored and onEnd process the results of a flush, also for callers that have left.
	onStored func([]submit.Answer)
	onEnd    func(context.Context, []jobs.Ending, []jobs.Ended)
	plain    *submitGroup
	large    *submitGroup
	ends     *batch.Batcher[jobs.Ending, jobs.Ended]
	beats    *batch.Batcher[jobs.Report, *jobs.Beat]

	mu      sync.Mutex
	guarded map[tenant.ID]*guardedGroup
	// slots bounds the guarded flushes.
	slots chan struct{}
}

// guardedGroup is deleted when its last user has left.
type guardedGroup struct {
	group *submitGroup
	users int
}

// New makes them. onStored and onEnd are called after each flush, also for callers that have left.
func New(store *cell.Cell, made Traces, onStored func([]submit.Answer), onEnd func(context.Context, []jobs.Ending, []jobs.Ended)) *Flushes {
	f := &Flushes{store: store, traces: made, onStored: onStored, onEnd: onEnd, guarded: map[tenant.ID]*guardedGroup{}, slots: make(chan struct{}, guardedFlushes)}
	f.plain, f.large = newSubmitGroup(f.submitPlain), newSubmitGroup(f.submitPlain)
	f.ends = batch.New(batch.Options[jobs.Ending, jobs.Ended]{
		MaxWeight: MaxJobs, Capacity: MaxWaiting, Timeout: Timeout,
		Owner:  func(e jobs.Ending) any { return e.Lease.Tenant },
		Weight: func(e jobs.Ending) int { return 1 + len(e.Result)/bytesPerJob },
		Flush: func(ctx context.Context, endings []jobs.Ending) []endResult {
			ctx, span := made.Flush(ctx, "outcomes", len(endings), func(i int) trace.SpanContext { return endings[i].Span })
			defer span.End()
			ended := store.Jobs.End(ctx, endings)
			onEnd(ctx, endings, ended)
			results := make([]endResult, len(ended))
			for i := range ended {
				results[i].Value = ended[i]
			}
			return results
		},
	})
	f.beats = batch.New(batch.Options[jobs.Report, *jobs.Beat]{
		MaxWeight: MaxJobs, Capacity: MaxWaiting, Timeout: Timeout, Flush: f.beat,
		Owner:  func(r jobs.Report) any { return r.Tenant },
		Weight: func(r jobs.Report) int { return 1 + len(r.Checkpoint)/bytesPerJob },
	})
	return f
}

func newSubmitGroup(flush func(context.Context, []*submit.Submission) []SubmitResult) *submitGroup {
	return batch.New(batch.Options[*submit.Submission, submit.Answer]{
		Flush: flush, MaxWeight: MaxJobs, Capacity: MaxWaiting, Timeout: Timeout,
		Weight: submissionWeight,
		Owner:  func(s *submit.Submission) any { return s.Tenant },
	})
}

func submissionWeight(s *submit.Submission) int {
	weight := len(s.Jobs)
	for i := range s.Jobs {
		weight += len(s.Jobs[i].Payload) / bytesPerJob
	}
	return weight
}

// Submit stores submissions, each with the next flush of its group.
func (f *Flushes) Submit(ctx context.Context, submissions []*submit.Submission) []SubmitResult {
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
	results := make([]SubmitResult, len(submissions))
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

func (f *Flushes) enter(owner tenant.ID) *guardedGroup {
	f.mu.Lock()
	defer f.mu.Unlock()
	one := f.guarded[owner]
	if one == nil {
		one = &guardedGroup{}
		one.group = newSubmitGroup(func(ctx context.Context, submissions []*submit.Submission) []SubmitResult {
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

func (f *Flushes) use(one *guardedGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	one.users++
}

func (f *Flushes) unuse(owner tenant.ID, one *guardedGroup) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one.users--; one.users == 0 && f.guarded[owner] == one {
		delete(f.guarded, owner)
	}
}

func (f *Flushes) submitPlain(ctx context.Context, submissions []*submit.Submission) []SubmitResult {
	results := make([]SubmitResult, len(submissions))
	ctx, span := f.span(ctx, submissions)
	defer span.End()
	f.storeAll(ctx, submissions, results)
	return results
}

func (f *Flushes) span(ctx context.Context, submissions []*submit.Submission) (context.Context, trace.Span) {
	return f.traces.Flush(ctx, "submits", len(submissions), func(i int) trace.SpanContext { return submissions[i].Span })
}

// submitGuarded waits for a slot without a connection or a lock; more of the tenant's submits
// gather in the group.
func (f *Flushes) submitGuarded(ctx context.Context, submissions []*submit.Submission) []SubmitResult {
	results := make([]SubmitResult, len(submissions))
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
// request is tried alone: one bad request never fails the others.
func (f *Flushes) storeAll(ctx context.Context, submissions []*submit.Submission, results []SubmitResult) {
	values := make([]submit.Submission, len(submissions))
	for i, s := range submissions {
		values[i] = *s
	}
	answers, err := f.store.Submits.Submit(ctx, values)
	switch {
	case err == nil:
		f.onStored(answers)
		for i := range answers {
			results[i].Value = answers[i]
		}
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
func (f *Flushes) storeParts(ctx context.Context, submissions []*submit.Submission, results []SubmitResult, parts [][]int) {
	for _, places := range parts {
		part, stored := make([]*submit.Submission, len(places)), make([]SubmitResult, len(places))
		for i, place := range places {
			part[i] = submissions[place]
		}
		f.storeAll(ctx, part, stored)
		for i, place := range places {
			results[place] = stored[i]
		}
	}
}

// End ends attempts with the next flush.
func (f *Flushes) End(ctx context.Context, endings []jobs.Ending) []jobs.Ended {
	ended := make([]jobs.Ended, len(endings))
	if request := f.traces.RequestSpan(ctx); request.IsValid() {
		for i := range endings {
			endings[i].Span = request
		}
	}
	for i, result := range f.ends.DoAll(ctx, endings) {
		ended[i] = result.Value
		if result.Err != nil {
			ended[i] = jobs.Ended{Err: WaitError(result.Err)}
		}
	}
	return ended
}

// Heartbeat extends leases, with what their holders report, in the next flush; nil for a lost one.
func (f *Flushes) Heartbeat(ctx context.Context, reports []jobs.Report) []HeartbeatResult {
	results := f.beats.DoAll(ctx, reports)
	for i := range results {
		results[i].Err = WaitError(results[i].Err)
	}
	return results
}

func (f *Flushes) beat(ctx context.Context, reports []jobs.Report) []HeartbeatResult {
	results := make([]HeartbeatResult, len(reports))
	ctx, _ = f.traces.Flush(ctx, "heartbeats", 0, nil) // no parent: a lease does not name its request
	f.report(ctx, reports, results)
	return results
}

// report stores what the holders of leases say. Those of a tenant that is not here fail by themselves.
func (f *Flushes) report(ctx context.Context, reports []jobs.Report, results []HeartbeatResult) {
	held, err := f.store.Jobs.Report(ctx, reports)
	if gone, elsewhere := store.ElsewhereOf(err); elsewhere {
		var others []jobs.Report
		var places []int
		for i := range reports {
			if results[i].Err = err; reports[i].Tenant != gone {
				others, places = append(others, reports[i]), append(places, i)
			}
		}
		if len(others) == 0 || len(others) == len(reports) {
			return
		}
		again := make([]HeartbeatResult, len(others))
		f.report(ctx, others, again)
		for i, place := range places {
			results[place] = again[i]
		}
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

// Waiting gives how many requests wait for a flush, and how many tenants have guarded submits in
// progress.
func (f *Flushes) Waiting() metrics.Flushes {
	f.mu.Lock()
	defer f.mu.Unlock()
	return metrics.Flushes{
		Submits: f.plain.Waiting() + f.large.Waiting(), Outcomes: f.ends.Waiting(), Heartbeats: f.beats.Waiting(), GuardedTenants: len(f.guarded),
	}
}

// WaitError maps the errors of a caller that has left or was refused. Any other error is the flush's
// own.
func WaitError(err error) error {
	switch {
	case errors.Is(err, batch.ErrFull), errors.Is(err, batch.ErrLeft):
		return fmt.Errorf("%w: %w", store.ErrOverloaded, err)
	case errors.Is(err, batch.ErrUnknown):
		// Why the caller left is no more than a text: that the database does not answer, which would say that
		// nothing was changed, is true of the caller, and not of the flush.
		return fmt.Errorf("%w: %s", store.ErrOutcomeUnknown, err.Error())
	}
	return err
}

// submitWaitError is WaitError for submits: one with an idempotency key that waited until its timeout has met
// a request in flight with the same key, its own first one or another of its tenant's.
func submitWaitError(err error, s *submit.Submission) error {
	if s.Idempotency != nil && (errors.Is(err, batch.ErrLeft) || errors.Is(err, batch.ErrUnknown) || store.LockTimedOut(err)) {
		return fmt.Errorf("%w: %w", submit.ErrIdempotencyInFlight, err)
	}
	return WaitError(err)
}
