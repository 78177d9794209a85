package dispatch_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lockTenant holds the lock that a tenant's guarded submits take, as another core
// would.
func (f *fixture) lockTenant(id tenant.ID) (unlock func()) {
	f.Helper()
	conn := celltest.Connect(f, f.url)
	if _, err := conn.Exec(f.Context(), `SELECT pg_advisory_lock($1)`, submitLockKey(id)); err != nil {
		f.Fatal(err)
	}
	return func() {
		f.Helper()
		if err := conn.Close(f.Context()); err != nil {
			f.Fatal(err)
		}
	}
}

// A small submit does not wait for a large one's flush, and tenants take turns.
func TestALargeSubmitHoldsUpNoSmallOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	large := plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	unlock := f.lockJobs()
	var group sync.WaitGroup
	for i, jobs := range [][]api.SubmitRequest{slices.Repeat([]api.SubmitRequest{large}, 20), {plain()}} {
		group.Go(func() {
			if answer := f.d.Submit(f.Context(), []dispatch.SubmitCall{f.call(jobs...)})[0]; answer.Err != nil || answer.Problem != nil {
				t.Errorf("%v, %v", answer.Err, answer.Problem)
			}
		})
		// PostgreSQL shows the first 1,024 bytes of a statement.
		celltest.Eventually(t, "its statement to stand before the lock", func() bool {
			return f.count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
				AND wait_event_type = 'Lock' AND query LIKE '%INSERT INTO jobs%'`) == i+1
		})
	}
	unlock()
	group.Wait()
}

// Submits and outcomes of many callers share commits; each caller has its own answer.
func TestManyCallersShareCommits(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	const callers = 300
	unlock := f.lockJobs() // the first flush waits; all others gather after it
	var group sync.WaitGroup
	submit := func() {
		if answer := f.d.Submit(f.Context(), []dispatch.SubmitCall{f.call(plain())})[0]; answer.Err != nil || answer.Problem != nil {
			t.Errorf("%v, %v", answer.Err, answer.Problem)
		}
	}
	group.Go(submit)
	f.blocked(1)
	for range callers - 1 {
		group.Go(submit)
	}
	celltest.Eventually(t, "all callers to wait", func() bool { return f.d.Flushes().Submits == callers-1 })
	unlock()
	group.Wait()
	found := f.claim(f.claimCall())
	if len(found) != callers {
		t.Fatalf("%d jobs are there, want %d", len(found), callers)
	}
	var flushes sync.Map
	for _, j := range found {
		flushes.Store(j.CreatedAt.UnixMicro(), true)
	}
	n := 0
	flushes.Range(func(any, any) bool { n++; return true })
	if n > 3 {
		t.Errorf("%d commits for %d submits, want the first and one or two more", n, callers)
	}
	for i := range found {
		group.Go(func() {
			ended := f.d.End(f.Context(), []jobs.Ending{{Lease: found[i].Lease(), Kind: api.KindComplete, Result: []byte(fmt.Sprint(i))}})
			if ended[0].Err != nil || ended[0].Outcome.JobID != found[i].ID.String() {
				t.Errorf("%+v", ended[0])
			}
		})
	}
	group.Wait()
	for i := range found {
		if got := f.get(found[i].ID); string(got.Result) != fmt.Sprint(i) {
			t.Errorf("job %d has the result %s", i, got.Result)
		}
	}
}

// A tenant whose lock is held by another session delays only itself.
func TestALockedTenantHoldsUpItselfAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stuck, other := f.newTenant(), f.newTenant()
	keyed := func(owner tenant.ID, key string) dispatch.SubmitCall {
		call := f.call(plain())
		call.Tenant, call.Idempotency = owner, &submit.Idempotency{Operation: "o", Key: key}
		return call
	}
	f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{keyed(stuck, "first"), keyed(other, "first")})...)
	unlock := f.lockTenant(stuck)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var late atomic.Int64
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			answer := f.d.Submit(soon, []dispatch.SubmitCall{keyed(stuck, fmt.Sprint(i))})[0]
			if errors.Is(answer.Err, submit.ErrIdempotencyInFlight) {
				late.Add(1)
			}
		})
		group.Go(func() {
			for _, answer := range f.d.Submit(t.Context(), []dispatch.SubmitCall{keyed(other, fmt.Sprint(i)), f.call(plain())}) {
				if answer.Err != nil {
					t.Error(answer.Err)
				}
			}
		})
	}
	group.Wait()
	if late.Load() != 20 {
		t.Errorf("%d of 20 were refused because a request is in flight", late.Load())
	}
	unlock()
	again := keyed(stuck, "0")
	first := f.d.Submit(t.Context(), []dispatch.SubmitCall{again})
	f.accepted(first...)
	celltest.Eventually(t, "every group to be forgotten", func() bool { return f.d.Flushes().GuardedTenants == 0 })
}

// A caller that leaves during a flush does not know; what it sent is done all the
// same, and published.
func TestACallerLeavesDuringAFlush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	unlock := f.lockJobs()
	ctx, leave := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- f.d.Submit(ctx, []dispatch.SubmitCall{f.call(plain())})[0].Err }()
	f.blocked(1)
	leave()
	if err := <-got; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("left during a flush: %v", err)
	}
	unlock()
	celltest.Eventually(t, "the job to be stored and published", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.published) > 0
	})
}

// submitLockKey and claimLockKey are the advisory locks of a tenant, as another
// core computes them.
func submitLockKey(id tenant.ID) int64 { return lockKey("submit", id) }

func claimLockKey(id tenant.ID) int64 { return lockKey("claim", id) }

func lockKey(class string, id tenant.ID) int64 {
	sum := sha256.Sum256(append([]byte("forgequeue//"+class+"/"), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
