package submits_test

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
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lockTenant holds the lock that a tenant's guarded submits take, as another core
// would.
func (f *fixture) lockTenant(id tenant.ID) (unlock func()) {
	f.Helper()
	conn := celltest.Connect(f, f.URL)
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
	f.Lane(enginetest.Plain())
	large := enginetest.Plain()
	large.Payload = json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	unlock := f.LockJobs()
	var group sync.WaitGroup
	for i, jobs := range [][]api.SubmitRequest{slices.Repeat([]api.SubmitRequest{large}, 20), {enginetest.Plain()}} {
		group.Go(func() {
			if answer := f.D.Submit(f.Context(), []submits.Call{f.Call(jobs...)})[0]; answer.Err != nil || answer.Problem != nil {
				t.Errorf("%v, %v", answer.Err, answer.Problem)
			}
		})
		// PostgreSQL shows the first 1,024 bytes of a statement.
		celltest.Eventually(t, "its statement to stand before the lock", func() bool {
			return f.Count(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
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
	f.Lane(enginetest.Plain())
	const callers = 300
	unlock := f.LockJobs() // the first flush waits; all others gather after it
	var group sync.WaitGroup
	submit := func() {
		if answer := f.D.Submit(f.Context(), []submits.Call{f.Call(enginetest.Plain())})[0]; answer.Err != nil || answer.Problem != nil {
			t.Errorf("%v, %v", answer.Err, answer.Problem)
		}
	}
	group.Go(submit)
	f.Blocked(1)
	for range callers - 1 {
		group.Go(submit)
	}
	celltest.Eventually(t, "all callers to wait", func() bool { return f.D.Flushes().Submits == callers-1 })
	unlock()
	group.Wait()
	found := f.Claim(f.ClaimCall())
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
			ended := f.D.End(f.Context(), []jobs.Ending{{Lease: found[i].Lease(), Kind: api.KindComplete, Result: []byte(fmt.Sprint(i))}})
			if ended[0].Err != nil || ended[0].Outcome.JobID != found[i].ID.String() {
				t.Errorf("%+v", ended[0])
			}
		})
	}
	group.Wait()
	for i := range found {
		if got := f.Get(found[i].ID); string(got.Result) != fmt.Sprint(i) {
			t.Errorf("job %d has the result %s", i, got.Result)
		}
	}
}

// A tenant whose lock is held by another session delays only itself.
func TestALockedTenantHoldsUpItselfAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	stuck, other := f.NewTenant(), f.NewTenant()
	keyed := func(owner tenant.ID, key string) submits.Call {
		call := f.Call(enginetest.Plain())
		call.Tenant, call.Idempotency = owner, &submit.Idempotency{Operation: "o", Key: key}
		return call
	}
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{keyed(stuck, "first"), keyed(other, "first")})...)
	unlock := f.lockTenant(stuck)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var late atomic.Int64
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			answer := f.D.Submit(soon, []submits.Call{keyed(stuck, fmt.Sprint(i))})[0]
			if errors.Is(answer.Err, submit.ErrIdempotencyInFlight) {
				late.Add(1)
			}
		})
		group.Go(func() {
			for _, answer := range f.D.Submit(t.Context(), []submits.Call{keyed(other, fmt.Sprint(i)), f.Call(enginetest.Plain())}) {
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
	first := f.D.Submit(t.Context(), []submits.Call{again})
	f.Accepted(first...)
	celltest.Eventually(t, "every group to be forgotten", func() bool { return f.D.Flushes().GuardedTenants == 0 })
}

// A caller that leaves during a flush does not know; what it sent is done all the
// same, and published.
func TestACallerLeavesDuringAFlush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	unlock := f.LockJobs()
	ctx, leave := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() { got <- f.D.Submit(ctx, []submits.Call{f.Call(enginetest.Plain())})[0].Err }()
	f.Blocked(1)
	leave()
	if err := <-got; !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("left during a flush: %v", err)
	}
	unlock()
	celltest.Eventually(t, "the job to be stored and published", func() bool {
		return len(f.Published()) > 0
	})
}

// submitLockKey is an advisory lock of a tenant, as another
// core computes them.
func submitLockKey(id tenant.ID) int64 { return lockKey("submit", id) }

func lockKey(class string, id tenant.ID) int64 {
	sum := sha256.Sum256(append([]byte("forgequeue//"+class+"/"), id[:]...))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}
