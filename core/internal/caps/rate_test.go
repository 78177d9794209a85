package caps_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// In every window a rate lets at most its burst and what the window brings through,
// and a claim that waits long enough gets one.
func TestARateHoldsInEveryWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rate := &caps.Rate{PerSecond: rapid.Float64Range(0.05, 500).Draw(t, "rate")}
		now := time.Unix(1_700_000_000, 0)
		due := now
		type start struct {
			at time.Time
			n  int64
		}
		var starts []start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "pause")))
			if wait := rate.Wait(now, due); (wait == 0) != (rate.Allowed(now, due) > 0) || rate.Allowed(now.Add(wait), due) < 1 ||
				wait > 2 && rate.Allowed(now.Add(wait-2), due) > 0 {
				t.Fatalf("a wait of %v at %.3f/s, due in %v", wait, rate.PerSecond, due.Sub(now))
			}
			n := min(rate.Allowed(now, due), rapid.Int64Range(0, 20).Draw(t, "wanted"))
			due = rate.After(now, due, n)
			starts = append(starts, start{now, n})
		}
		for i := range starts {
			sum := int64(0)
			for _, s := range starts[i:] {
				sum += s.n
				window := s.at.Sub(starts[i].at).Seconds()
				if most := float64(rate.Burst()) + rate.PerSecond*window + 0.001; float64(sum) > most {
					t.Fatalf("%d starts within %.3f s, at most %.1f at %.3f/s", sum, window, most, rate.PerSecond)
				}
			}
		}
		later := due.Add(time.Duration(float64(time.Second)/rate.PerSecond) + 1)
		if rate.Allowed(later, due) < 1 {
			t.Fatal("nothing may start although it is due")
		}
	})
}

// Two cores that claim at once keep a queue's rate together.
func TestCoresKeepARateTogether(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Submit(f.Jobs(100)...)
	rate := &caps.Rate{QueueKey: tenant.QueueKey{Tenant: f.Tenant, Name: f.Lane.Queue}, PerSecond: 10}
	var mu sync.Mutex
	got := 0
	begun := time.Now()
	more := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return time.Since(begun) < 1200*time.Millisecond || got < 20 && time.Since(begun) < time.Minute
	}
	var group sync.WaitGroup
	for _, store := range []*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)} {
		group.Go(func() {
			for more() {
				taken, err := store.Claims.Claim(t.Context(), claim.Request{
					Lanes:   []claim.Lane{{ID: f.Lane.ID, Tenant: f.Tenant, VisibilityTimeout: time.Minute, Rates: []caps.Rate{*rate}}},
					Workers: []claim.Worker{{ID: "w", Max: 7}}, Owner: f.Tenant, LeaseID: uuid.New(),
				})
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				got += len(taken.Jobs)
				mu.Unlock()
			}
		})
	}
	group.Wait()
	// a burst of ten, and ten a second
	if took := time.Since(begun).Seconds(); float64(got) > 10+10*took+1 || got < 20 {
		t.Errorf("%d jobs started in %.2f s at 10 a second", got, took)
	}
	if n := f.CountOf(`SELECT count(*) FROM rate_log`); n > 3 {
		t.Errorf("%d rows are stored of one queue's rate", n)
	}
}
