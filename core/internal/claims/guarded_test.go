package claims_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// misrouted that cannot be moved (no lane left): the claim spins, and no later job is served.
func TestMisroutedWithoutALane(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Request("bob"), enginetest.Request("bob"), enginetest.Request(""), enginetest.Request(""))
	if _, err := f.Direct.Exec(t.Context(), `INSERT INTO lanes (tenant_id, queue, type, tags, capped_user, created_at)
SELECT $1, 'default', 'test', '{}', 'u' || n, now() FROM generate_series(1, $2::integer) n`, f.Tenant, lanes.MaxOfUser); err != nil {
		t.Fatal(err)
	}
	f.Override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(2))}})
	call := f.ClaimCall()
	call.Max = 2
	start := time.Now()
	jobs, err := f.D.Claim(t.Context(), call)
	took := time.Since(start)
	t.Logf("claim without wait: %d jobs, err %v, after %v", len(jobs), err, took)
	if len(jobs) == 0 {
		t.Error("jobs without a user wait after a misrouted one for ever")
	}
}

// claims that wait for their tenant's lock take every connection.
func TestClaimsHoldThePool(t *testing.T) {
	t.Parallel()
	f := newFixture(t) // 8 connections, 5 s pool wait
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(2))}})
	f.Submit(enginetest.Request(""))
	// another core, stopped in the middle of a guarded claim: simulated by its lock
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, claimLockKey(f)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	var over atomic.Bool
	for i := range 12 { // each for other queues, or they would be one; again, as a claim gives up before a slow machine has begun all
		group.Go(func() {
			for !over.Load() {
				_, _ = f.D.Claim(t.Context(), f.ClaimCall("default", fmt.Sprint("other", i)))
			}
		})
	}
	celltest.Eventually(t, "claims to stand at the gate", func() bool { return f.D.ClaimGroups() == 12 })
	other := f.newTenantDirect()
	start := time.Now()
	answer := f.D.Submit(t.Context(), []submits.Call{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}}}})[0]
	t.Logf("another tenant's plain submit: %v after %v", answer.Err, time.Since(start))
	if answer.Err != nil || time.Since(start) > time.Second {
		t.Error("one tenant's lock stops all")
	}
	over.Store(true)
	_ = conn.Close(t.Context())
	group.Wait()
}

func (f *fixture) newTenantDirect() uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	if _, err := f.Direct.Exec(f.Context(), `INSERT INTO tenants (id, name, plan, weight, overrides, created_at) VALUES ($1, 'x', 'standard', 1, '{}', now())`, id); err != nil {
		f.Fatal(err)
	}
	return id
}

func claimLockKey(f *fixture) int64 { return f.Store.LockKey(store.LockClaim, f.Tenant) }

// lanes are known, limits are not (their read failed, or has not come yet): claims go without caps.
func TestUnknownLimitsFailOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	for range 5 {
		f.Submit(enginetest.Request(""))
	}
	second := f.NewCore(f.Store)
	if _, err := f.Direct.Exec(t.Context(), `ALTER TABLE tenants RENAME TO tenants_away`); err != nil {
		t.Fatal(err)
	}
	t.Log(second.Refresh(t.Context()))
	call := f.ClaimCall()
	jobs, err := second.Claim(t.Context(), call)
	t.Logf("claimed %d under a cap of 1: %v", len(jobs), err)
	if len(jobs) > 1 {
		t.Error("a core that does not know the limits claims without them")
	}
}

// a flush of capped lanes of one tenant fills its LIMIT with jobs without capacity.
func TestOtherTenantBehindACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	for _, p := range []int{9, 9, 8, 8, 7, 7, 6, 6} {
		r := enginetest.Request("")
		r.Priority = &p
		f.Submit(r)
	}
	other := f.NewTenant()
	low := 5
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t", Priority: &low}}}})...)
	call := f.ClaimCall()
	call.Owner, call.Max = uuid.Nil, 4
	jobs, err := f.D.Claim(t.Context(), call)
	t.Logf("platform claim of 4: %d jobs, %v", len(jobs), err)
	if len(jobs) != 2 {
		t.Errorf("got %d of the two with capacity", len(jobs))
	}
}

// one tenant's stuck claim lock stops the platform's workers for all tenants.
func TestPlatformClaimWaitsForOneTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(2))}})
	f.Submit(enginetest.Request(""))
	other := f.NewTenant()
	f.Accepted(f.D.Submit(t.Context(), []submits.Call{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}}}})...)
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, claimLockKey(f)); err != nil {
		t.Fatal(err)
	}
	call := f.ClaimCall()
	call.Owner = uuid.Nil
	start := time.Now()
	jobs, err := f.D.Claim(t.Context(), call)
	t.Logf("platform claim: %d jobs, %v, after %v", len(jobs), err, time.Since(start))
	if len(jobs) == 0 {
		t.Error("the other tenant's job is not served")
	}
}
