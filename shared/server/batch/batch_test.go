package batch_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"go.uber.org/goleak"

	"github.com/forgequeue/forgequeue/shared/server/batch"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flusher answers each request with its double, after a while, and notes what it
// was given.
type flusher struct {
	takes time.Duration

	mu      sync.Mutex
	flushes [][]int
	busy    int
	t       *testing.T
}

func (f *flusher) flush(_ context.Context, requests []int) []batch.Result[int] {
	f.mu.Lock()
	f.flushes = append(f.flushes, append([]int(nil), requests...))
	if f.busy++; f.busy > 1 {
		f.t.Error("two flushes at once")
	}
	f.mu.Unlock()
	time.Sleep(f.takes)
	f.mu.Lock()
	f.busy--
	f.mu.Unlock()
	results := make([]batch.Result[int], len(requests))
	for i, r := range requests {
		results[i].Value = 2 * r
	}
	return results
}

func newBatcher(f *flusher, most, waiting int) *batch.Batcher[int, int] {
	return batch.New(batch.Options[int, int]{Flush: f.flush, MaxWeight: most, Capacity: waiting})
}

func TestAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Millisecond}
		g := newBatcher(f, 10, 10)
		begun := time.Now()
		if got, err := g.Do(t.Context(), 21); got != 42 || err != nil {
			t.Fatalf("%d, %v", got, err)
		}
		if took := time.Since(begun); took != time.Millisecond {
			t.Errorf("an idle batcher took %v", took)
		}
	})
}

// Requests that arrive during a flush share the next one, at most so many, in order.
func TestRequestsDuringAFlushShareTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: 10 * time.Millisecond}
		g := newBatcher(f, 4, 100)
		var group sync.WaitGroup
		for i := range 10 {
			group.Go(func() {
				if got, err := g.Do(t.Context(), i); got != 2*i || err != nil {
					t.Errorf("%d: %d, %v", i, got, err)
				}
			})
			synctest.Wait()
		}
		group.Wait()
		if got := fmt.Sprint(f.flushes); got != "[[0] [1 2 3 4] [5 6 7 8] [9]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

func TestWeight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Millisecond}
		g := batch.New(batch.Options[int, int]{
			Flush: f.flush, MaxWeight: 10, Capacity: 100, Weight: func(r int) int { return r },
		})
		results := g.DoAll(t.Context(), []int{6, 4, 1, 30, 5, 5, 1})
		for i, r := range []int{6, 4, 1, 30, 5, 5, 1} {
			if results[i].Value != 2*r || results[i].Err != nil {
				t.Errorf("%d: %+v", r, results[i])
			}
		}
		if got := fmt.Sprint(f.flushes); got != "[[6 4] [1] [30] [5 5] [1]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

// A request that finds the queue full is refused, and those in it are served.
func TestFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Second}
		g := newBatcher(f, 10, 2)
		errs := make([]error, 4)
		var group sync.WaitGroup
		for i := range errs {
			group.Go(func() { _, errs[i] = g.Do(t.Context(), i) })
			synctest.Wait()
		}
		group.Wait()
		for i, want := range []error{nil, nil, nil, batch.ErrFull} {
			if !errors.Is(errs[i], want) || (want == nil && errs[i] != nil) {
				t.Errorf("%d: %v, want %v", i, errs[i], want)
			}
		}
		if got := fmt.Sprint(f.flushes); got != "[[0] [1 2]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

// carried is what a caller's context and request hold: a request's body, say.
type carried struct{ _ [1 << 10]byte }

type carriedKey struct{}

// A batcher that goes on flushing for others holds on to nothing of the caller who
// started it, neither its request nor what its context carries.
func TestNothingOfTheFirstCallerStays(t *testing.T) {
	t.Parallel()
	stay, release := make(chan struct{}), make(chan struct{})
	g := batch.New(batch.Options[*carried, int]{
		MaxWeight: 1, Capacity: 10,
		Flush: func(_ context.Context, requests []*carried) []batch.Result[int] {
			if requests[0] == nil {
				close(stay)
				<-release
			}
			return make([]batch.Result[int], len(requests))
		},
	})
	inContext, inRequest := new(carried), new(carried)
	kept := map[string]weak.Pointer[carried]{"context": weak.Make(inContext), "request": weak.Make(inRequest)}
	ctx, leave := context.WithCancel(context.WithValue(t.Context(), carriedKey{}, inContext))
	left := make(chan struct{})
	go func(ctx context.Context, request *carried) {
		defer close(left)
		g.DoAll(ctx, []*carried{request, nil}) // two flushes; the second one stays
	}(ctx, inRequest)
	<-stay
	leave()
	<-left
	runtime.GC()
	for where, pointer := range kept {
		if pointer.Value() != nil {
			t.Errorf("what was in the first caller's %s is still in memory", where)
		}
	}
	close(release)
}

// Once the first in the queue has waited for too long, new requests are refused at once,
// until that has changed; those that wait already are served all the same.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: 3 * time.Second}
		g := batch.New(batch.Options[int, int]{Flush: f.flush, MaxWeight: 1, Capacity: 100, MaxWait: time.Second})
		var group sync.WaitGroup
		for i := range 3 {
			group.Go(func() {
				if _, err := g.Do(t.Context(), i); err != nil {
					t.Errorf("%d: %v", i, err)
				}
			})
			synctest.Wait()
		}
		for _, step := range []struct {
			after time.Duration
			late  bool
		}{{after: time.Second}, {after: time.Millisecond, late: true}, {after: 8 * time.Second}} {
			time.Sleep(step.after)
			synctest.Wait()
			if g.Late() != step.late {
				t.Errorf("late: %v, want %v", g.Late(), step.late)
			}
			if !step.late {
				continue
			}
			asked := time.Now()
			if _, err := g.Do(t.Context(), 9); !errors.Is(err, batch.ErrFull) || time.Since(asked) != 0 {
				t.Errorf("got %v after %v, want ErrFull at once", err, time.Since(asked))
			}
		}
		group.Wait()
		if _, err := g.Do(t.Context(), 3); err != nil {
			t.Errorf("when the queue is empty: %v", err)
		}
		if got := fmt.Sprint(f.flushes); got != "[[0] [1] [2] [3]]" {
			t.Errorf("flushes %s", got)
		}
	})
}

// Ten times as many come as can be served, for a minute. Nearly all that a batcher with
// a reserve does is done for callers who are still there; the others are refused, and
// nothing was done for them. Without one all the work is for callers who have left: that is the control.
func TestOverloadWorksForThoseWhoAreThere(t *testing.T) {
	t.Parallel()
	const most, minute = 10, 60
	for _, test := range []struct{ reserve, least, greatest int }{
		{50, most * minute * 9 / 10, most * (minute + 5)},
		{0, 0, most * minute / 4},
	} {
		t.Run(fmt.Sprint(test.reserve), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := &flusher{t: t, takes: time.Second}
				g := batch.New(batch.Options[int, int]{Flush: f.flush, MaxWeight: most, Capacity: 10_000, Reserve: test.reserve})
				var served, refused, unknown atomic.Int64
				var group sync.WaitGroup
				for i := range 10 * most * minute {
					group.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
						defer cancel()
						switch _, err := g.Do(ctx, i); {
						case err == nil:
							served.Add(1)
						case errors.Is(err, batch.ErrUnknown):
							unknown.Add(1)
						default:
							refused.Add(1)
						}
					})
					time.Sleep(time.Second / (10 * most))
				}
				group.Wait()
				time.Sleep(f.takes) // the last flush, for nobody
				if n := int(served.Load()); n < test.least || n > test.greatest || refused.Load() == 0 || (test.reserve > 0 && unknown.Load() > 0) {
					t.Errorf("%d served, %d refused, %d in doubt", n, refused.Load(), unknown.Load())
				}
			})
		})
	}
}

// A caller that leaves before its flush is not in it; one that leaves during it disturbs
// no other, and its error says that the result is unknown.
func TestLeaving(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &flusher{t: t, takes: time.Second}
		g := newBatcher(f, 10, 100)
		during, leaveDuring := context.WithCancel(t.Context())
		before, leaveBefore := context.WithCancel(t.Context())
		errs := make([]error, 4)
		var group sync.WaitGroup
		for i, ctx := range []context.Context{during, t.Context(), before, t.Context()} {
			group.Go(func() { _, errs[i] = g.Do(ctx, i) })
			synctest.Wait()
		}
		leaveDuring()
		leaveBefore()
		synctest.Wait()
		if !errors.Is(errs[0], batch.ErrUnknown) || !errors.Is(errs[2], batch.ErrLeft) || !errors.Is(errs[2], context.Canceled) {
			t.Errorf("left during: %v, before: %v", errs[0], errs[2])
		}
		group.Wait()
		if got := fmt.Sprint(f.flushes); got != "[[0] [1 3]]" || errs[1] != nil || errs[3] != nil {
			t.Errorf("flushes %s, %v", got, errs)
		}
		if g.Waiting() != 0 {
			t.Errorf("%d wait", g.Waiting())
		}
	})
}

func TestAFlushThatFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := batch.New(batch.Options[int, int]{
			MaxWeight: 10, Capacity: 10, Timeout: time.Minute,
			Flush: func(ctx context.Context, requests []int) []batch.Result[int] {
				switch requests[0] {
				case 1:
					panic("oh")
				case 2:
					return nil
				case 3:
					<-ctx.Done()
					return []batch.Result[int]{{Err: ctx.Err()}}
				}
				return make([]batch.Result[int], len(requests))
			},
		})
		for request, want := range map[int]error{1: batch.ErrUnknown, 3: context.DeadlineExceeded} {
			if _, err := g.Do(t.Context(), request); !errors.Is(err, want) {
				t.Errorf("%d: %v", request, err)
			}
		}
		if _, err := g.Do(t.Context(), 2); err == nil {
			t.Error("too few results, and no error")
		}
		if _, err := g.Do(t.Context(), 0); err != nil {
			t.Errorf("after failures: %v", err)
		}
	})
}

// Many callers, some of whom leave: each gets its own result.
func TestManyCallers(t *testing.T) {
	t.Parallel()
	f := &flusher{t: t, takes: 200 * time.Microsecond}
	g := newBatcher(f, 50, 1000)
	var group sync.WaitGroup
	for i := range 2000 {
		group.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%7 == 0 {
				go cancel()
			}
			got, err := g.Do(ctx, i)
			if err == nil && got != 2*i {
				t.Errorf("%d was answered %d", i, got)
			}
			if err != nil && i%7 != 0 && !errors.Is(err, batch.ErrFull) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	group.Wait()
	if len(f.flushes) > 1500 {
		t.Errorf("%d flushes for 2000 requests", len(f.flushes))
	}
}
