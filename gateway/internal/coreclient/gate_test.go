package coreclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// fill takes places of a class until there is none left.
func fill(t *testing.T, g *gate, c hop.Class) (taken int) {
	t.Helper()
	for g.queue.admits(c) {
		if err := g.enter(t.Context(), c, ""); err != nil {
			t.Fatal(err)
		}
		taken++
	}
	return taken
}

func reasonOf(err error) string {
	if away, ok := errors.AsType[turnedAwayError](err); ok {
		return away.reason
	}
	return ""
}

func TestUrgentCallsHaveTheirOwnPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(100, 1)
		if taken := fill(t, g, hop.ClassSubmit); taken != 80 {
			t.Errorf("submits may use %d of 100", taken)
		}
		for c, want := range map[hop.Class]bool{hop.ClassLease: true, hop.ClassKey: true, hop.ClassClaim: true, hop.ClassSubmit: false, hop.ClassRead: false, hop.ClassList: false} {
			if g.queue.admits(c) != want {
				t.Errorf("beside submits that use all they may, %v starts: %v", c, !want)
			}
		}
		if taken := fill(t, g, hop.ClassLease); taken != 20 {
			t.Errorf("%d places are left for leases", taken)
		}
	})
}

// Places go to the most urgent class first, and in each to who came first.
func TestTurnsComeInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10, 1)
		taken := fill(t, g, hop.ClassLease)
		var mu sync.Mutex
		var turns []string
		var group sync.WaitGroup
		for i, name := range []string{"list 1", "submit 1", "claim 1", "submit 2", "lease 1", "lease 2"} {
			c := []hop.Class{hop.ClassList, hop.ClassSubmit, hop.ClassClaim, hop.ClassSubmit, hop.ClassLease, hop.ClassLease}[i]
			group.Go(func() {
				if err := g.enter(t.Context(), c, ""); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				turns = append(turns, name)
				mu.Unlock()
				g.leave(c)
			})
			synctest.Wait() // it waits before the next one comes
		}
		for range taken {
			g.leave(hop.ClassLease)
			synctest.Wait()
		}
		group.Wait()
		if want := []string{"lease 1", "lease 2", "claim 1", "submit 1", "submit 2", "list 1"}; !slices.Equal(turns, want) {
			t.Errorf("turns: %v, want %v", turns, want)
		}
		if g.queue.total != 0 || g.queue.waiting.Len() != 0 {
			t.Errorf("%d in flight and %d waiting at the end", g.queue.total, g.queue.waiting.Len())
		}
	})
}

func TestPatience(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name         string
		left, waited time.Duration // left 0: no deadline
		leavesAfter  time.Duration // 0: stays
		reason       string
		cause        error
	}{
		{name: "no deadline", waited: maxPatience, reason: reasonWaited},
		{name: "much time", left: time.Minute, waited: maxPatience, reason: reasonWaited},
		{name: "half of it is core's", left: time.Second, waited: 500 * time.Millisecond, reason: reasonWaited},
		{name: "the caller leaves", left: time.Minute, waited: time.Second, leavesAfter: time.Second, cause: context.Canceled},
		{name: "none left", left: -time.Second, waited: 0, cause: context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := newGate(10, 1)
				fill(t, g, hop.ClassLease)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.left != 0 {
					ctx, cancel = context.WithTimeout(ctx, test.left)
					defer cancel()
				}
				if test.leavesAfter > 0 {
					time.AfterFunc(test.leavesAfter, cancel)
				}
				began := time.Now()
				err := g.enter(ctx, hop.ClassLease, "")
				if took := time.Since(began); took != test.waited {
					t.Errorf("waited %v, want %v", took, test.waited)
				}
				if test.cause != nil && !errors.Is(err, test.cause) && reasonOf(err) != reasonWaited {
					t.Errorf("%v, want %v", err, test.cause)
				}
				if test.reason != "" && (reasonOf(err) != test.reason || !errors.Is(err, ErrOverloaded)) {
					t.Errorf("%v, want %s", err, test.reason)
				}
				if g.queue.waiting.Len() != 0 {
					t.Error("it still stands in the line")
				}
			})
		})
	}
}

// Who leaves at the moment of his turn does not keep the place.
func TestTurnOfACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // select takes either side
			g := newGate(10, 1)
			taken := fill(t, g, hop.ClassLease)
			ctx, leave := context.WithCancel(t.Context())
			entered := make(chan error, 1)
			go func() { entered <- g.enter(ctx, hop.ClassLease, "") }()
			synctest.Wait()
			leave()
			g.leave(hop.ClassLease)
			if <-entered == nil {
				g.leave(hop.ClassLease)
			}
			synctest.Wait()
			if g.queue.total != taken-1 || g.queue.waiting.Len() != 0 {
				t.Fatalf("%d in flight and %d waiting, want %d and 0", g.queue.total, g.queue.waiting.Len(), taken-1)
			}
		}
	})
}

func TestFullLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10, 1)
		fill(t, g, hop.ClassLease)
		var group sync.WaitGroup
		errs := make(chan error, 100)
		wait := func(c hop.Class) {
			group.Go(func() { errs <- g.enter(t.Context(), c, "") })
			synctest.Wait()
		}
		for range waitingPerCall * 10 {
			wait(hop.ClassList)
		}
		wait(hop.ClassList)
		if err := <-errs; reasonOf(err) != reasonFull {
			t.Errorf("one list too many: %v", err)
		}
		wait(hop.ClassLease)
		if err := <-errs; reasonOf(err) != reasonDisplaced {
			t.Errorf("a heartbeat came, and the last list got %v", err)
		}
		group.Wait()
		close(errs)
		for err := range errs {
			if reasonOf(err) != reasonWaited {
				t.Errorf("%v", err)
			}
		}
	})
}

// A tenant that has taken all the places for watching loses them one by one to those
// that come after it, and has none of those for claims to lose.
func TestParkedPlacesAreShared(t *testing.T) {
	t.Parallel()
	g := newGate(10, 100)
	fill(t, g, hop.ClassLease)
	var greedy []*place
	for {
		taken, err := g.park(false, "greedy")
		if err != nil {
			if reasonOf(err) != reasonParked {
				t.Fatal(err)
			}
			break
		}
		greedy = append(greedy, taken)
	}
	if len(greedy) != 100 {
		t.Errorf("one alone has %d places of 100", len(greedy))
	}
	lost := func() (n int) {
		for _, one := range greedy {
			if one.isLost() {
				n++
			}
		}
		return n
	}
	for _, whose := range []string{"b", "c"} {
		for range 33 {
			if _, err := g.park(false, whose); err != nil {
				t.Fatalf("%s has no place: %v", whose, err)
			}
		}
	}
	if lost() != 66 || !greedy[65].isLost() || greedy[66].isLost() {
		t.Errorf("%d of its places were lost, want the oldest 66", lost())
	}
	if _, err := g.park(false, "b"); reasonOf(err) != reasonParked {
		t.Errorf("one more than a share: %v", err)
	}
	for range 100 {
		if _, err := g.park(true, "b"); err != nil {
			t.Fatalf("a claim has no place beside those who watch: %v", err)
		}
	}
	for _, one := range greedy {
		g.unpark(false, one) // those that were lost as well
	}
	if g.waits.taken != 66 || g.claims.taken != 100 {
		t.Errorf("%d watch and %d claim", g.waits.taken, g.claims.taken)
	}
}

// Whoever has many calls waiting waits behind his own, not before others.
func TestTenantsTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10, 1)
		fill(t, g, hop.ClassLease)
		var turns []string
		var group sync.WaitGroup
		for i := range 12 {
			whose := "many"
			if i >= 10 {
				whose = "few"
			}
			group.Go(func() {
				if err := g.enter(t.Context(), hop.ClassLease, whose); err != nil {
					t.Error(err)
				}
				turns = append(turns, whose)
			})
			synctest.Wait()
		}
		for range 12 {
			g.leave(hop.ClassLease)
			synctest.Wait()
		}
		group.Wait()
		if want := []string{"many", "few", "many", "few"}; !slices.Equal(turns[:4], want) {
			t.Errorf("turns: %v", turns)
		}
	})
}

func TestBudgetIsATenthOfTheCalls(t *testing.T) {
	t.Parallel()
	var b budget
	saved := 0
	for b.spend() {
		saved++
	}
	if saved != maxSaved/repeatCost {
		t.Errorf("%d repeats from a full budget", saved)
	}
	repeats := 0
	for range 1000 {
		b.earn()
		if b.spend() {
			repeats++
		}
	}
	if repeats != 100 {
		t.Errorf("%d repeats for 1000 calls", repeats)
	}
	for range 10 * maxSaved {
		b.earn()
	}
	for range saved {
		if !b.spend() {
			t.Fatal("not full again after many calls")
		}
	}
	if b.spend() {
		t.Error("more saved than may be")
	}
}

func TestTryTime(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		left    time.Duration
		another bool
		want    time.Duration
	}{
		{10 * time.Second, true, 6 * time.Second},
		{10 * time.Second, false, 10 * time.Second},
		{2 * time.Second, true, 1200 * time.Millisecond},
		{1999 * time.Millisecond, true, 1999 * time.Millisecond},
		{50 * time.Millisecond, true, 50 * time.Millisecond},
	} {
		if got := tryTime(test.left, test.another); got != test.want {
			t.Errorf("%v, another %v: %v, want %v", test.left, test.another, got, test.want)
		}
	}
}
