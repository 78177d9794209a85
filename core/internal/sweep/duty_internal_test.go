package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func noDuties() Duties {
	return New(nil, nil, metrics.NewJobs(prometheus.NewRegistry()), slog.New(slog.DiscardHandler))
}

// start runs a duty until the test ends.
func start(t *testing.T, duty *Duty) {
	t.Helper()
	go func() { _ = duty.Run(t.Context()) }()
	synctest.Wait()
}

// A duty runs at once, and again after its period, ± 10 %; a failed run counts under its name.
func TestEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := noDuties()
		var runs []time.Time
		start(t, d.every(time.Minute, "test", func(context.Context) error {
			runs = append(runs, time.Now())
			return errors.New("not yet")
		}))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		for i := range len(runs) - 1 {
			if gap := runs[i+1].Sub(runs[i]); gap < 54*time.Second || gap > 66*time.Second {
				t.Errorf("%v between two runs", gap)
			}
		}
		if n := testutil.ToFloat64(d.metrics.SweepErrors.WithLabelValues("test")); len(runs) < 18 || n != float64(len(runs)) {
			t.Errorf("%d runs, %v errors", len(runs), n)
		}
	})
}

// A kick ends the sleep; one that comes while the duty runs is not lost, and many are one.
func TestKick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		var duty *Duty
		duty = noDuties().duty("test", func(context.Context) (time.Duration, error) {
			if runs++; runs == 1 {
				duty.Kick()
				duty.Kick()
			}
			return time.Hour, nil
		})
		start(t, duty)
		if runs != 2 {
			t.Errorf("%d runs after the kicks of the first", runs)
		}
		duty.Kick()
		synctest.Wait()
		if runs != 3 {
			t.Errorf("%d runs after another kick", runs)
		}
	})
}

// A duty that is kicked often has a least time between two runs; a kick in it is not lost, and one after it is obeyed at once.
func TestKicksOfADutyWithAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var runs []time.Duration
		d := noDuties()
		duty := d.kickedSeldom(publish.NewKick(), time.Second, "test", func(context.Context) (time.Duration, error) {
			runs = append(runs, time.Since(begun))
			return time.Hour, nil
		})
		start(t, duty)
		for range 10 {
			duty.Kick()
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(9500 * time.Millisecond)
		duty.Kick()
		synctest.Wait()
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		want := []time.Duration{0, time.Second, 10 * time.Second, time.Hour + 10*time.Second, 2*time.Hour + 10*time.Second}
		if !slices.Equal(runs, want) {
			t.Errorf("it ran after %v, want %v", runs, want)
		}
	})
}

// A duty sleeps until its work is due, and no longer than the net.
func TestUntilDue(t *testing.T) {
	t.Parallel()
	for _, want := range []struct {
		next  time.Duration
		some  bool
		sleep time.Duration
	}{{0, false, net}, {time.Hour, true, net}, {time.Second, true, time.Second}, {-time.Hour, true, dueGap}} {
		if got := untilDue(want.next, want.some, net); got != want.sleep {
			t.Errorf("%+v: %v", want, got)
		}
	}
}

// Each tenant has one step in a round, and one whose step has failed has none until the next run. A run ends with a
// round that was of no use, or after many; then the next begins at once.
func TestRounds(t *testing.T) {
	t.Parallel()
	short, long, broken := uuid.New(), uuid.New(), uuid.New()
	left := map[tenant.ID]int{short: 1, long: maxRounds, broken: 1}
	steps := map[tenant.ID]int{}
	locked := make(chan struct{}, 1)
	duty := noDuties().inRounds("test", time.Hour, rounds{
		tenants: func(context.Context) (owners []tenant.ID, _ error) {
			for owner, n := range left {
				if n > 0 {
					owners = append(owners, owner)
				}
			}
			return owners, nil
		},
		step: func(_ context.Context, owner tenant.ID) (bool, error) {
			locked <- struct{}{}
			defer func() { <-locked }()
			if steps[owner]++; owner == broken {
				return false, errors.New("broken")
			}
			left[owner]--
			return true, nil
		},
	})
	if sleep, err := duty.RunOnce(t.Context()); sleep != 0 || err == nil || err.Error() != "broken" {
		t.Errorf("a run that is cut short: %v, %v", sleep, err)
	}
	if steps[short] != 1 || steps[long] != maxRounds || steps[broken] != 1 {
		t.Errorf("%v", steps)
	}
	if sleep, err := duty.RunOnce(t.Context()); sleep != time.Hour || err == nil || steps[broken] != 2 {
		t.Errorf("the next run: %v, %v, %v", sleep, err, steps)
	}
}
