package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// misrouted that cannot be moved (no lane left): the claim spins, and no later job is served.
func TestMisroutedWithoutALane(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(request("bob"), request("bob"), request(""), request(""))
	if _, err := f.direct.Exec(t.Context(), `INSERT INTO lanes (tenant_id, queue, type, tags, capped_user, created_at)
SELECT $1, 'default', 'test', '{}', 'u' || n, now() FROM generate_series(1, $2::integer) n`, f.tenant, lanes.MaxOfUser); err != nil {
		t.Fatal(err)
	}
	f.override(api.Overrides{Limits: api.Limits{UserMaxRunning: new(int64(2))}})
	call := f.claimCall()
	call.Max = 2
	start := time.Now()
	jobs, err := f.d.Claim(t.Context(), call)
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
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(2))}})
	f.submit(request(""))
	// another core, stopped in the middle of a guarded claim: simulated by its lock
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, queueClaimKey(f)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 12 { // each for other queues, or they would be one
		group.Go(func() { _, _ = f.d.Claim(t.Context(), f.claimCall("default", fmt.Sprint("other", i))) })
	}
	celltest.Eventually(t, "claims to stand at the gate", func() bool { return f.d.WaitingClaimLocks(f.tenant) > 1 })
	other := f.newTenantDirect()
	start := time.Now()
	answer := f.d.Submit(t.Context(), []dispatch.SubmitCall{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}}}})[0]
	t.Logf("another tenant's plain submit: %v after %v", answer.Err, time.Since(start))
	if answer.Err != nil || time.Since(start) > time.Second {
		t.Error("one tenant's lock stops all")
	}
	_ = conn.Close(t.Context())
	group.Wait()
}

func (f *fixture) newTenantDirect() uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	if _, err := f.direct.Exec(f.Context(), `INSERT INTO tenants (id, name, plan, weight, overrides, created_at) VALUES ($1, 'x', 'standard', 1, '{}', now())`, id); err != nil {
		f.Fatal(err)
	}
	return id
}

func queueClaimKey(f *fixture) int64 { return claimLockKey(f.tenant) }

// callers that leave free the group's name but not its slot: one tenant takes all slots.
func TestOneTenantTakesAllSlots(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyed := func(owner uuid.UUID, key string) dispatch.SubmitCall {
		return dispatch.SubmitCall{
			Tenant: owner, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}},
			Idempotency: &submit.Idempotency{Operation: "o", Key: key}, Render: celltest.Render,
		}
	}
	other := f.newTenant()
	f.d.Submit(t.Context(), []dispatch.SubmitCall{keyed(other, "warm"), keyed(f.tenant, "warm")})
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, submitLockKey(f.tenant)); err != nil {
		t.Fatal(err)
	}
	for range 6 { // one client that gives up after 100 ms and repeats
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		f.d.Submit(ctx, []dispatch.SubmitCall{keyed(f.tenant, "k")})
		cancel()
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	answer := f.d.Submit(ctx, []dispatch.SubmitCall{keyed(other, "mine")})[0]
	t.Logf("another tenant's keyed submit: %v after %v", answer.Err, time.Since(start))
	if answer.Err != nil {
		t.Error("one tenant's stuck lock stops the guarded submits of all others")
	}
	_ = conn.Close(t.Context())
	celltest.Eventually(t, "the flush whose callers have left to end", func() bool { return f.d.Flushes().GuardedTenants == 0 })
}

// an unkeyed submit is refused because of an Idempotency-Key in flight.
func TestUnkeyedIsRefusedInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxActive: new(int64(100))}})
	f.submit(request(""))
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, submitLockKey(f.tenant)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	errs := make([]error, 2)
	call := func(i int, key bool) {
		c := f.call(request(""))
		if key {
			c.Idempotency = &submit.Idempotency{Operation: "o", Key: "k"}
		}
		group.Go(func() { errs[i] = f.d.Submit(t.Context(), []dispatch.SubmitCall{c})[0].Err })
	}
	group.Go(func() { f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(request(""))}) }) // the first flush: alone
	f.blocked(1)
	call(0, false)
	call(1, true)
	group.Wait()
	t.Logf("unkeyed: %v", errs[0])
	t.Logf("keyed: %v", errs[1])
	if errors.Is(errs[0], submit.ErrIdempotencyInFlight) {
		t.Error("an unkeyed request is answered 409 idempotency_in_flight")
	}
	_ = conn.Close(t.Context())
}

// lanes are known, limits are not (their read failed, or has not come yet): claims go without caps.
func TestUnknownLimitsFailOpen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	for range 5 {
		f.submit(request(""))
	}
	second := f.newCore(f.store)
	if _, err := f.direct.Exec(t.Context(), `ALTER TABLE tenants RENAME TO tenants_away`); err != nil {
		t.Fatal(err)
	}
	t.Log(second.Refresh(t.Context()))
	call := f.claimCall()
	jobs, err := second.Claim(t.Context(), call)
	t.Logf("claimed %d under a cap of 1: %v", len(jobs), err)
	if len(jobs) > 1 {
		t.Error("a core that does not know the limits claims without them")
	}
}

// A cap that is gone for a moment, and back before a sweep came by, finds what was
// stored in that moment.
func TestPutQueueTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(limit *int64) {
		if err := f.store.Queues.Put(t.Context(), f.tenant, "default", api.QueueRequest{MaxActive: limit}); err != nil {
			t.Fatal(err)
		}
		if err := f.d.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(new(int64(3)))
	f.submit(request(""))
	put(nil) // forgot max_active in a PUT …
	f.submit(request(""), request(""), request(""), request(""))
	put(new(int64(3))) // … and corrected it before the sweep came by
	accepted := 0
	for range 4 {
		accepted += f.d.Submit(t.Context(), []dispatch.SubmitCall{f.call(request(""))})[0].Accepted
	}
	if accepted != 0 {
		t.Errorf("5 live, cap 3, and %d more were accepted", accepted)
	}
}

// a flush of capped lanes of one tenant fills its LIMIT with jobs without capacity.
func TestOtherTenantBehindACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1))}})
	for _, p := range []int{9, 9, 8, 8, 7, 7, 6, 6} {
		r := request("")
		r.Priority = &p
		f.submit(r)
	}
	other := f.newTenant()
	low := 5
	f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t", Priority: &low}}}})...)
	call := f.claimCall()
	call.Owner, call.Max = uuid.Nil, 4
	jobs, err := f.d.Claim(t.Context(), call)
	t.Logf("platform claim of 4: %d jobs, %v", len(jobs), err)
	if len(jobs) != 2 {
		t.Errorf("got %d of the two with capacity", len(jobs))
	}
}

// one tenant's stuck claim lock stops the platform's workers for all tenants.
func TestPlatformClaimWaitsForOneTenant(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(2))}})
	f.submit(request(""))
	other := f.newTenant()
	f.accepted(f.d.Submit(t.Context(), []dispatch.SubmitCall{{Tenant: other, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}}}})...)
	conn := celltest.Connect(t, f.url)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, claimLockKey(f.tenant)); err != nil {
		t.Fatal(err)
	}
	call := f.claimCall()
	call.Owner = uuid.Nil
	start := time.Now()
	jobs, err := f.d.Claim(t.Context(), call)
	t.Logf("platform claim: %d jobs, %v, after %v", len(jobs), err, time.Since(start))
	if len(jobs) == 0 {
		t.Error("the other tenant's job is not served")
	}
}
