package cellclient

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// fill takes seats of a class until there is none left.
func fill(t *testing.T, g *gate, c hop.Class) (taken []*seats.Seat) {
	t.Helper()
	for {
		seat := now(t, g, c)
		if seat == nil {
			return taken
		}
		taken = append(taken, seat)
	}
}

// now takes a seat, nil where it would have to wait.
func now(t *testing.T, g *gate, c hop.Class) *seats.Seat {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	seat, err := g.enter(ctx, c, "", "")
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return seat
}

// counts adds up all classes.
func counts(g *gate) (taken, waiting int) {
	for c := range hop.OrderedClasses {
		of, wait := g.counts(c)
		taken, waiting = taken+of, waiting+wait
	}
	return taken, waiting
}

func TestEveryClassLeavesRoomToThoseBefore(t *testing.T) {
	t.Parallel()
	for _, inFlight := range []int{int(hop.OrderedClasses), 16, 100, 1024, 65536} {
		classes := classesOf(inFlight)
		if classes[hop.ClassLease].All != inFlight {
			t.Errorf("%d: leases may use %+v", inFlight, classes[hop.ClassLease])
		}
		for c := hop.ClassKey; c < hop.OrderedClasses; c++ {
			if classes[c].All >= classes[c-1].All || classes[c].All < 1 {
				t.Errorf("%d: %v may go up to %+v, %v up to %+v", inFlight, c, classes[c], c-1, classes[c-1])
			}
		}
	}
	for c, m := range classesOf(1) { // too few for all, but none is shut out
		if m.All != 1 {
			t.Errorf("one call in flight: %v may go up to %+v", hop.Class(c), m)
		}
	}
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
		if taken := fill(t, g, hop.ClassSubmit); len(taken) != 80 {
			t.Errorf("submits may use %d of 100", len(taken))
		}
		for c, want := range map[hop.Class]bool{hop.ClassLease: true, hop.ClassKey: true, hop.ClassClaim: true, hop.ClassSubmit: false, hop.ClassRead: false, hop.ClassList: false} {
			seat := now(t, g, c)
			if (seat != nil) != want {
				t.Errorf("beside submits that use all they may, %v starts: %v", c, !want)
			}
			if seat != nil {
				seat.Leave()
			}
		}
		if taken := fill(t, g, hop.ClassLease); len(taken) != 20 {
			t.Errorf("%d places are left for leases", len(taken))
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
				seat, err := g.enter(t.Context(), c, "", "")
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				mu.Lock()
				turns = append(turns, name)
				mu.Unlock()
				seat.Leave()
			})
			synctest.Wait() // it waits before the next one comes
		}
		for _, seat := range taken {
			seat.Leave()
			synctest.Wait()
		}
		group.Wait()
		if want := []string{"lease 1", "lease 2", "claim 1", "submit 1", "submit 2", "list 1"}; !slices.Equal(turns, want) {
			t.Errorf("turns: %v, want %v", turns, want)
		}
		if busy, waiting := counts(g); busy != 0 || waiting != 0 {
			t.Errorf("%d in flight and %d waiting at the end", busy, waiting)
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
				_, err := g.enter(ctx, hop.ClassLease, "", "")
				if took := time.Since(began); took != test.waited {
					t.Errorf("waited %v, want %v", took, test.waited)
				}
				if test.cause != nil && !errors.Is(err, test.cause) && reasonOf(err) != reasonWaited {
					t.Errorf("%v, want %v", err, test.cause)
				}
				if test.reason != "" && (reasonOf(err) != test.reason || !errors.Is(err, ErrOverloaded)) {
					t.Errorf("%v, want %s", err, test.reason)
				}
				if _, waiting := counts(g); waiting != 0 {
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
			go func() {
				seat, err := g.enter(ctx, hop.ClassLease, "", "")
				if err == nil {
					seat.Leave()
				}
				entered <- err
			}()
			synctest.Wait()
			leave()
			taken[0].Leave()
			<-entered
			synctest.Wait()
			if busy, waiting := counts(g); busy != len(taken)-1 || waiting != 0 {
				t.Fatalf("%d in flight and %d waiting, want %d and 0", busy, waiting, len(taken)-1)
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
			group.Go(func() {
				_, err := g.enter(t.Context(), c, "", "")
				errs <- err
			})
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
		taken := fill(t, g, hop.ClassLease)
		for range 3 { // it has used some
			seat := taken[0]
			seat.Leave()
			seat, err := g.enter(t.Context(), hop.ClassLease, "many", "")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
			taken[0] = seat
		}
		var turns []string
		var group sync.WaitGroup
		for i := range 12 {
			whose := "many"
			if i >= 10 {
				whose = "few"
			}
			group.Go(func() {
				seat, err := g.enter(t.Context(), hop.ClassLease, whose, "")
				if err != nil {
					t.Error(err)
					return
				}
				turns = append(turns, whose)
				time.Sleep(time.Millisecond)
				seat.Leave()
			})
			synctest.Wait()
		}
		taken[1].Leave()
		group.Wait()
		if len(turns) != 12 || slices.Index(turns, "few") > 1 || slices.Index(turns[slices.Index(turns, "few")+1:], "few") > 2 {
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
