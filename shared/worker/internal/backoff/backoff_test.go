package backoff_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	for n, ms := range []int{100, 200, 400, 800, 1000, 1000} {
		most := time.Duration(ms) * time.Millisecond
		for range 100 {
			if got := backoff.After(n, 100*time.Millisecond, time.Second); got < most/2 || got > most {
				t.Fatalf("after failure %d: %v", n, got)
			}
		}
	}
	if got := backoff.After(1000, time.Second, time.Minute); got > time.Minute || got < time.Minute/2 {
		t.Errorf("after many: %v", got)
	}
}

func TestAskedIsAtLeastWhatTheServerAsksFor(t *testing.T) {
	t.Parallel()
	asks := problem.New(problem.Overloaded, "").WithRetryAfter(3 * time.Second)
	for range 100 {
		if got := backoff.Asked(0, time.Second, asks); got < 3*time.Second || got > 3100*time.Millisecond {
			t.Fatalf("%v", got)
		}
	}
	if got := backoff.Asked(0, time.Second, problem.New(problem.Overloaded, "").WithRetryAfter(time.Hour)); got > 2*time.Minute {
		t.Errorf("asked for an hour: %v", got)
	}
}
