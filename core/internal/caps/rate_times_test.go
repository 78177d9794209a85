package caps_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func claimAt(f *celltest.Fixture, perSecond float64, n int) int {
	f.Helper()
	taken, err := f.Store.Claims.Claim(f.Context(), claim.Request{
		Lanes: []claim.Lane{{
			ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute,
			Rates: []caps.Rate{{QueueKey: tenant.QueueKey{Tenant: f.Tenant, Name: f.Lane.Queue}, PerSecond: perSecond}},
		}},
		Workers: []claim.Worker{{ID: "w", Max: n}}, LeaseID: uuid.New(),
	})
	if err != nil {
		f.Fatal(err)
	}
	return len(taken.Jobs)
}

// A rate that is raised holds from then on: what the old one has put off is not waited for.
func TestARaisedRateHoldsAtOnce(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Submit(f.Jobs(10)...)
	if n := claimAt(f, 0.001, 10); n != 1 {
		t.Fatalf("%d start at once, want 1", n)
	}
	if n := claimAt(f, 0.001, 10); n != 0 {
		t.Fatalf("%d start at once after that, want none", n)
	}
	if n := claimAt(f, 100, 10); n == 0 {
		t.Error("nothing starts at 100/s: the queue waits for the next start of the old rate, 1,000 s")
	}
}

// The same where PostgreSQL's clock was set back.
func TestARateAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Submit(f.Jobs(30)...)
	if n := claimAt(f, 10, 10); n != 10 {
		t.Fatalf("%d start at once, want 10", n)
	}
	f.Exec(`UPDATE rate_log SET due = due + interval '1 hour'`)
	begun := time.Now()
	since := func() int { return int(time.Since(begun).Seconds() * 10) } // those that come with the time this takes
	first := claimAt(f, 10, 10)
	if again := claimAt(f, 10, 10); first < 1 || first+again > 1+since() {
		t.Errorf("%d and then %d start, want one and none", first, again)
	}
	f.Exec(`UPDATE rate_log SET due = due - interval '1.1 seconds'`) // as if so much time had passed
	if n := claimAt(f, 10, 20); n < 9 || n > 11+since() {
		t.Errorf("a second later %d start, want 10", n)
	}
}

// A rate that is next to nothing is not without bounds.
func TestASmallRateIsARate(t *testing.T) {
	t.Parallel()
	rate, now := &caps.Rate{PerSecond: 1e-10}, time.Now()
	if n := rate.Allowed(now.Add(time.Second), rate.After(now, now, 1)); n != 0 {
		t.Errorf("%d start a second after the first one, want none", n)
	}
}
