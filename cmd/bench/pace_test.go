package bench

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// starts collects what a pace's senders did, on a clock that only sleeps move.
type starts struct {
	mu       sync.Mutex
	intended []time.Duration
	late     []time.Duration
}

// paced runs a pace whose requests take a time, and returns what it did.
func paced(ctx context.Context, p pace, senders int, takes time.Duration) (*starts, pacing) {
	var s starts
	begun := time.Now()
	ended := p.run(ctx, senders, nil, func() (sender, func()) {
		return func(_ int64, intended time.Time) {
			now := time.Now()
			s.mu.Lock()
			s.intended = append(s.intended, intended.Sub(begun))
			s.late = append(s.late, now.Sub(intended))
			s.mu.Unlock()
			time.Sleep(takes)
		}, func() {}
	})
	return &s, ended
}

func TestRequestsStartWhenTheyAreMeantTo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		s, ended := paced(t.Context(), newPace(100, 1, 0, time.Second), 4, time.Millisecond)
		if len(s.intended) != 100 || len(ended.unsent) != 0 {
			t.Fatalf("%d sent, %d unsent, want 100 and none", len(s.intended), len(ended.unsent))
		}
		for i, late := range s.late {
			if late != 0 {
				t.Errorf("request at %v was %v late", s.intended[i], late)
			}
		}
		if took := time.Since(begun); took != 991*time.Millisecond {
			t.Errorf("it took %v", took)
		}
	})
}

// A server that stops for a while must show in every request that was meant to
// start meanwhile, though only one was waiting for it.
func TestAStallIsNotOmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rec := newRecorder()
		stall := 500 * time.Millisecond
		ended := newPace(100, 1, 0, time.Second).run(t.Context(), 1, nil, func() (sender, func()) {
			return func(n int64, intended time.Time) {
				if n == 10 {
					time.Sleep(stall)
				}
				rec.took("submit", time.Since(intended))
			}, func() {}
		})
		if len(ended.unsent) != 0 {
			t.Fatalf("%d unsent", len(ended.unsent))
		}
		// 50 of 100 were meant to start within the stall, each 10 ms less late.
		seen := rec.summary()["submit"]
		if seen.Count != 100 || seen.P50 > 20 || seen.P90 < 390 || seen.Max < 499 {
			t.Errorf("closed-loop it would look like one slow request; recorded %+v", seen)
		}
	})
}

func TestWhatCannotBeSentIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// One sender, a second each, ten a second meant: it gives up after the grace.
		p := newPace(10, 1, 0, 4*time.Second)
		begun := time.Now()
		s, ended := paced(t.Context(), p, 1, time.Second)
		if got := len(s.intended) + len(ended.unsent); got != 40 {
			t.Errorf("%d sent and %d unsent are not 40", len(s.intended), len(ended.unsent))
		}
		if took := time.Since(begun); took > p.during+p.grace+2*time.Second {
			t.Errorf("it went on for %v", took)
		}
		if first := ended.unsent[0].Sub(begun); first != time.Duration(len(s.intended))*100*time.Millisecond {
			t.Errorf("the first unsent was meant for %v after %d sent", first, len(s.intended))
		}
	})
}

func TestClosedLoopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, _ := paced(t.Context(), newPace(0, 1, 0, time.Second), 2, 100*time.Millisecond)
		if len(s.intended) != 20 {
			t.Errorf("by time: %d requests", len(s.intended))
		}
		s, ended := paced(t.Context(), newPace(0, 10, 95, time.Hour), 3, 100*time.Millisecond)
		if len(s.intended) != 10 || len(ended.unsent) != 0 {
			t.Errorf("by jobs: %d requests of 10 jobs for 95", len(s.intended))
		}
	})
}

func TestAPaceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		s, ended := paced(ctx, newPace(10, 1, 0, time.Minute), 2, 0)
		if len(s.intended) > 4 || len(ended.unsent) != 0 {
			t.Errorf("%d sent, %d counted as unsent though the user ended it", len(s.intended), len(ended.unsent))
		}
	})
}

func TestRateAndBatchMakeThePace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rate        float64
		batch, jobs int
		during      time.Duration
		every       time.Duration
		total       int64
	}{
		{1000, 1, 0, time.Second, time.Millisecond, 1000},
		{1000, 100, 0, time.Second, 100 * time.Millisecond, 10},
		{1000, 1, 10, time.Second, time.Millisecond, 10},
		{1000, 1, 10_000, time.Second, time.Millisecond, 1000},
		{0, 10, 95, time.Second, 0, 10},
		{0, 10, 0, time.Second, 0, 0},
	} {
		if p := newPace(test.rate, test.batch, test.jobs, test.during); p.every != test.every || p.total != test.total {
			t.Errorf("%+v: every %v, total %d", test, p.every, p.total)
		}
	}
}
