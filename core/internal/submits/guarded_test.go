package submits_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// callers that leave free the group's name but not its slot: one tenant takes all slots.
func TestOneTenantTakesAllSlots(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyed := func(owner uuid.UUID, key string) submits.Call {
		return submits.Call{
			Tenant: owner, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "t"}},
			Idempotency: &submit.Idempotency{Operation: "o", Key: key}, Render: celltest.Render,
		}
	}
	other := f.NewTenant()
	f.D.Submit(t.Context(), []submits.Call{keyed(other, "warm"), keyed(f.Tenant, "warm")})
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, submitLockKey(f.Tenant)); err != nil {
		t.Fatal(err)
	}
	for range 6 { // one client that gives up after 100 ms and repeats
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		f.D.Submit(ctx, []submits.Call{keyed(f.Tenant, "k")})
		cancel()
	}
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	answer := f.D.Submit(ctx, []submits.Call{keyed(other, "mine")})[0]
	t.Logf("another tenant's keyed submit: %v after %v", answer.Err, time.Since(start))
	if answer.Err != nil {
		t.Error("one tenant's stuck lock stops the guarded submits of all others")
	}
	_ = conn.Close(t.Context())
	celltest.Eventually(t, "the flush whose callers have left to end", func() bool { return f.D.Flushes().GuardedTenants == 0 })
}

// an unkeyed submit is refused because of an Idempotency-Key in flight.
func TestUnkeyedIsRefusedInFlight(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Override(api.Overrides{Limits: api.Limits{MaxActive: new(int64(100))}})
	f.Submit(enginetest.Request(""))
	conn := celltest.Connect(t, f.URL)
	if _, err := conn.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, submitLockKey(f.Tenant)); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	errs := make([]error, 2)
	call := func(i int, key bool) {
		c := f.Call(enginetest.Request(""))
		if key {
			c.Idempotency = &submit.Idempotency{Operation: "o", Key: "k"}
		}
		group.Go(func() { errs[i] = f.D.Submit(t.Context(), []submits.Call{c})[0].Err })
	}
	group.Go(func() { f.D.Submit(t.Context(), []submits.Call{f.Call(enginetest.Request(""))}) }) // the first flush: alone
	f.Blocked(1)
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

// A cap that is gone for a moment, and back before a sweep came by, finds what was
// stored in that moment.
func TestPutQueueTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	put := func(limit *int64) {
		if err := f.Store.Queues.Put(t.Context(), f.Tenant, "default", api.QueueRequest{MaxActive: limit}); err != nil {
			t.Fatal(err)
		}
		if err := f.D.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	put(new(int64(3)))
	f.Submit(enginetest.Request(""))
	put(nil) // forgot max_active in a PUT …
	f.Submit(enginetest.Request(""), enginetest.Request(""), enginetest.Request(""), enginetest.Request(""))
	put(new(int64(3))) // … and corrected it before the sweep came by
	accepted := 0
	for range 4 {
		accepted += f.D.Submit(t.Context(), []submits.Call{f.Call(enginetest.Request(""))})[0].Accepted
	}
	if accepted != 0 {
		t.Errorf("5 live, cap 3, and %d more were accepted", accepted)
	}
}
