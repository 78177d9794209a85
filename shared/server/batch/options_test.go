package batch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/batch"
)

// One owner with far more than there is room for: another's request is in the next
// flush, and never finds the queue full.
func TestOwnersTakeTurns(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}, 100), make(chan struct{})
	var mu sync.Mutex
	var flushes [][]string
	b := batch.New(batch.Options[string, string]{
		MaxWeight: 10, Capacity: 50, Owner: func(r string) any { return r },
		Flush: func(_ context.Context, requests []string) []batch.Result[string] {
			mu.Lock()
			flushes = append(flushes, slices.Clone(requests))
			mu.Unlock()
			entered <- struct{}{}
			<-release
			results := make([]batch.Result[string], len(requests))
			for i := range results {
				results[i].Value = requests[i]
			}
			return results
		},
	})
	var callers sync.WaitGroup
	callers.Go(func() { _, _ = b.Do(t.Context(), "many") })
	<-entered // a flush is under way, and what comes now waits
	refused := make(chan error, 60)
	for range 60 {
		callers.Go(func() {
			if _, err := b.Do(t.Context(), "many"); err != nil {
				refused <- err
			}
		})
	}
	for range 10 { // 50 wait
		if err := <-refused; !errors.Is(err, batch.ErrFull) {
			t.Fatal(err)
		}
	}
	callers.Go(func() {
		if got, err := b.Do(t.Context(), "few"); got != "few" || err != nil {
			t.Errorf("the other owner: %q, %v", got, err)
		}
	})
	if err := <-refused; !errors.Is(err, batch.ErrFull) { // displaced by it
		t.Fatal(err)
	}
	close(release)
	callers.Wait()
	if len(flushes) < 2 || !slices.Contains(flushes[1], "few") {
		t.Errorf("flushes: %v", flushes)
	}
}

// A flush is bounded by weight and by number, whichever is reached first.
func TestMaxRequests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Millisecond}
		b := batch.New(batch.Options[int, int]{
			Flush: f.flush, MaxWeight: 10, MaxRequests: 3, Capacity: 100, Weight: func(r int) int { return r },
		})
		for _, result := range b.DoAll(t.Context(), []int{1, 1, 1, 1, 6, 6, 30, 2, 2, 2, 2}) {
			if result.Err != nil {
				t.Error(result.Err)
			}
		}
		if got := fmt.Sprint(f.flushes); got != "[[1 1 1] [1 6] [6] [30] [2 2 2] [2]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

// After CallTimeout a call is over: what waits is not flushed, and the result of what is
// being flushed is unknown.
func TestCallTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var flushes [][]int
		b := batch.New(batch.Options[int, int]{
			MaxWeight: 2, Capacity: 10, CallTimeout: time.Second,
			Flush: func(_ context.Context, requests []int) []batch.Result[int] {
				flushes = append(flushes, slices.Clone(requests))
				<-release
				return make([]batch.Result[int], len(requests))
			},
		})
		var group sync.WaitGroup
		begun := time.Now()
		for _, requests := range [][]int{{1, 2, 3, 4}, {5}} {
			group.Go(func() {
				for i, result := range b.DoAll(t.Context(), requests) {
					want := batch.ErrLeft
					if requests[i] <= 2 {
						want = batch.ErrUnknown
					}
					if !errors.Is(result.Err, want) || !errors.Is(result.Err, context.DeadlineExceeded) {
						t.Errorf("%d: %v, want %v", requests[i], result.Err, want)
					}
				}
				if took := time.Since(begun); took != time.Second {
					t.Errorf("%v took %v", requests, took)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		if _, err := b.Do(t.Context(), 6); !errors.Is(err, batch.ErrLeft) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("6: %v", err)
		}
		if b.Waiting() != 0 {
			t.Errorf("%d wait", b.Waiting())
		}
		close(release)
		if _, err := b.Do(t.Context(), 7); err != nil {
			t.Errorf("7: %v", err)
		}
		if got := fmt.Sprint(flushes); got != "[[1 2] [7]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

// All that wait are answered at once with the error; the flush under way is not disturbed.
func TestRejectWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Second}
		b := batch.New(batch.Options[int, int]{Flush: f.flush, MaxWeight: 2, Capacity: 10, Owner: func(r int) any { return r % 2 }})
		because := errors.New("because")
		errs := make([]error, 5)
		var group sync.WaitGroup
		begun := time.Now()
		for i := range errs {
			group.Go(func() {
				_, errs[i] = b.Do(t.Context(), i)
				if took := time.Since(begun); i > 0 && took != 0 {
					t.Errorf("%d took %v", i, took)
				}
			})
			synctest.Wait()
		}
		b.RejectWaiting(because)
		group.Wait()
		for i, err := range errs {
			if i == 0 && err != nil || i > 0 && !errors.Is(err, because) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if got, err := b.Do(t.Context(), 9); got != 18 || err != nil {
			t.Errorf("9: %d, %v", got, err)
		}
		if got := fmt.Sprint(f.flushes); got != "[[0] [9]]" {
			t.Errorf("flushes %s", got)
		}
	})
}
