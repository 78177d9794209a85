package turns_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/turns"
)

func take(t *testing.T, all *turns.Turns, owner string) func() {
	t.Helper()
	release, err := all.Take(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// waits returns once so many callers have an owner's turn or wait for it.
func waits(t *testing.T, all *turns.Turns, owner string, n int) {
	t.Helper()
	for began := time.Now(); all.Waiting(owner) != n; {
		if time.Since(began) > time.Minute {
			t.Fatalf("%d of %s, want %d", all.Waiting(owner), owner, n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestOneOfAnOwnerAtATime(t *testing.T) {
	t.Parallel()
	all := turns.New(100)
	var inside, most atomic.Int32
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			release := take(t, all, "a")
			defer release()
			most.Store(max(most.Load(), inside.Add(1)))
			inside.Add(-1)
		})
	}
	group.Wait()
	if most.Load() != 1 || all.Waiting("a") != 0 {
		t.Errorf("%d at once, %d left", most.Load(), all.Waiting("a"))
	}
}

func TestOwnersDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	all := turns.New(1)
	held := take(t, all, "a")
	take(t, all, "b")() // it would hang
	held()
}

func TestAWaitEnds(t *testing.T) {
	t.Parallel()
	all := turns.New(1)
	held := take(t, all, "a")
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := all.Take(ctx, "a")
		failed <- err
	}()
	waits(t, all, "a", 2)
	if _, err := all.Take(t.Context(), "a"); !errors.Is(err, turns.ErrFull) {
		t.Errorf("one more than may wait: %v", err)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that left: %v", err)
	}
	held()
	take(t, all, "a")()
	if n := all.Waiting("a"); n != 0 {
		t.Errorf("%d are left", n)
	}
}
