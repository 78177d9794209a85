package wait_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/wait"
)

func TestFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if err := wait.For(t.Context(), time.Minute); err != nil || time.Since(begun) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun = time.Now()
		if err := wait.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		if err := wait.For(ctx, -time.Second); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after its end: %v", err)
		}
		if err := wait.For(t.Context(), 0); err != nil {
			t.Error(err)
		}
	})
}

func TestAbout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shortest, longest := time.Hour, time.Duration(0)
		for range 1000 {
			begun := time.Now()
			if err := wait.About(t.Context(), time.Minute); err != nil {
				t.Fatal(err)
			}
			shortest, longest = min(shortest, time.Since(begun)), max(longest, time.Since(begun))
		}
		if shortest < 30*time.Second || shortest > 35*time.Second || longest < 85*time.Second || longest > 90*time.Second {
			t.Errorf("from %v to %v", shortest, longest)
		}
		if err := wait.About(t.Context(), 0); err != nil {
			t.Error(err)
		}
	})
}
