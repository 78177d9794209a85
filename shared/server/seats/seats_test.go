package seats_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/seats"
)

const forEver = time.Hour

// take takes a seat, and gives what leaves it.
func take(t *testing.T, s *seats.Seats, work seats.Work) *seats.Seat {
	t.Helper()
	seat, err := s.Take(t.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	return seat
}

// queue has calls wait, one after the other, and notes the order in which they get their seats.
type queue struct {
	*testing.T
	seats *seats.Seats
	group sync.WaitGroup
	mu    sync.Mutex
	order []string
	errs  map[string]error
}

func (q *queue) enter(name string, work seats.Work, holds time.Duration) {
	q.group.Go(func() {
		seat, err := q.seats.Take(q.Context(), work)
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			q.errs[name] = err
			return
		}
		q.order = append(q.order, name)
		go func() {
			time.Sleep(holds)
			seat.Leave()
		}()
	})
	synctest.Wait() // it waits before the next one comes
}

// got are those that have had a seat, in their order.
func (q *queue) got() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.order)
}

// refused are why the others have none.
func (q *queue) refused() map[string]error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.errs)
}

func newQueue(t *testing.T, o seats.Options) *queue {
	t.Helper()
	return &queue{T: t, seats: seats.New(o), errs: map[string]error{}}
}

// The seats go to the most urgent class first, and what is less urgent leaves some to it.
func TestUrgentCallsGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, seats.Options{Seats: 4, Waiting: 10, Classes: []seats.Class{{All: 4}, {All: 3}, {All: 2, Own: 1}}})
		q.enter("list", seats.Work{Class: 2}, forEver)
		q.enter("second list", seats.Work{Class: 2}, time.Second) // above its own bound
		q.enter("submit", seats.Work{Class: 1}, time.Second)
		q.enter("second submit", seats.Work{Class: 1}, time.Second)
		q.enter("third submit", seats.Work{Class: 1}, time.Second) // one is left to outcomes
		q.enter("outcome", seats.Work{}, 2*time.Second)
		if want := []string{"list", "submit", "second submit", "outcome"}; !slices.Equal(q.got(), want) {
			t.Errorf("%v, want %v", q.got(), want)
		}
		q.enter("second outcome", seats.Work{}, time.Second)
		q.enter("third outcome", seats.Work{}, time.Second)
		time.Sleep(1500 * time.Millisecond)
		if got, want := slices.Sorted(slices.Values(q.got()[4:])), []string{"second outcome", "third outcome"}; !slices.Equal(got, want) {
			t.Errorf("then %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		if want := []string{"third submit"}; !slices.Equal(q.got()[6:], want) {
			t.Errorf("then %v, want %v", q.got()[6:], want)
		}
		if taken, waiting := q.seats.Counts(2); taken != 1 || waiting != 1 {
			t.Errorf("%d lists, and %d wait", taken, waiting)
		}
		time.Sleep(2 * forEver)
		q.group.Wait()
	})
}

// An owner who has used little goes before one that has used much, whichever came first; and one that takes all it can
// leaves a quarter to others.
func TestWhoHasUsedLittleGoesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, seats.Options{Seats: 4, Waiting: 100, Classes: []seats.Class{{All: 4, Share: 3}}})
		q.enter("nobody", seats.Work{Owner: "loud", Operation: "p"}, 0)
		for i := range 4 {
			q.enter("", seats.Work{Owner: "loud", Operation: "p"}, time.Second)
			if taken, _ := q.seats.Counts(0); taken != i+1 {
				t.Errorf("alone it has %d seats of 4", taken)
			}
		}
		time.Sleep(time.Minute)
		q.enter("", seats.Work{Owner: "another", Operation: "p"}, 0) // it is there
		before := len(q.got())
		loud, other, quiet := seats.Work{Owner: "loud", Operation: "o"}, seats.Work{Owner: "other", Operation: "o"}, seats.Work{Owner: "quiet", Operation: "o"}
		for i := range 10 {
			q.enter(fmt.Sprint("loud ", i), loud, time.Second+time.Duration(i)*200*time.Millisecond)
		}
		if len(q.got()[before:]) != 3 {
			t.Errorf("one owner has %d of 4 seats, want 3", len(q.got()[before:]))
		}
		q.enter("other 0", other, 1500*time.Millisecond)
		if len(q.got()[before:]) != 4 || q.got()[before:][3] != "other 0" {
			t.Errorf("the fourth seat is for others: %v", q.got()[before:])
		}
		q.enter("other 1", other, time.Second)
		q.enter("quiet 0", quiet, time.Second)
		q.enter("quiet 1", quiet, time.Second)
		time.Sleep(1450 * time.Millisecond) // one loses its seat after a second, and two more each 200 ms later
		if got, want := q.got()[before:][4:], []string{"quiet 0", "quiet 1", "other 1"}; !slices.Equal(got, want) {
			t.Errorf("then %v, want %v", got, want)
		}
		time.Sleep(time.Minute)
		if len(q.got()[before:]) != 14 || len(q.refused()) != 0 {
			t.Errorf("%d calls had a seat: %v %v", len(q.got()[before:]), q.got()[before:], q.refused())
		}
		q.group.Wait()
	})
}

// What takes long takes several seats, once that is known, and what is short takes none.
func TestCallsTakeSeatsByWhatTheyTook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := seats.New(seats.Options{Seats: 16, Waiting: 10, Free: 2 * time.Millisecond, Classes: []seats.Class{{All: 16, Unit: 10 * time.Millisecond, Widest: 4}}})
		taken := func(work seats.Work, lasts time.Duration) int {
			seat := take(t, s, work)
			n, _ := s.Counts(0)
			time.Sleep(lasts)
			if took := seat.Leave(); took != lasts {
				t.Errorf("it took %v, and not %v", took, lasts)
			}
			return n
		}
		list := seats.Work{Owner: "a", Operation: "list", Guess: 5 * time.Millisecond}
		if n := taken(list, 40*time.Millisecond); n != 1 {
			t.Errorf("%d seats before anything is known", n)
		}
		if n := taken(list, 40*time.Millisecond); n != 4 {
			t.Errorf("%d seats for 40 ms, want 4", n)
		}
		list.Owner = "b"
		if n := taken(list, time.Millisecond); n != 4 {
			t.Errorf("%d seats for an owner whose own is not known, want 4", n)
		}
		if n := taken(list, time.Millisecond); n != 0 {
			t.Errorf("%d seats for what is short, want none", n)
		}
		bytes := seats.Work{Owner: "a", Operation: "decode", Size: 1000}
		taken(bytes, 10*time.Millisecond)
		bytes.Size = 3000
		if n := taken(bytes, 30*time.Millisecond); n != 3 {
			t.Errorf("%d seats for three times as much, want 3", n)
		}
		for range 100 {
			taken(seats.Work{Owner: "a", Operation: "list"}, time.Millisecond)
		}
		if n := taken(seats.Work{Owner: "a", Operation: "list"}, time.Millisecond); n != 0 {
			t.Errorf("%d seats once it is short", n)
		}
		if used := s.Used("nobody"); used != 0 {
			t.Errorf("who has done nothing has used %v", used)
		}
		before := s.Used("a")
		time.Sleep(30 * time.Second)
		if after := s.Used("a"); before == 0 || after > before/1000 {
			t.Errorf("%v was used, and half a minute later %v", before, after)
		}
	})
}

// Where as many wait as may, the one with the most loses its newest, and nobody else.
func TestWhoFillsTheQueueIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, seats.Options{Seats: 1, Waiting: 5, Classes: []seats.Class{{All: 1}, {All: 1}}})
		take(t, q.seats, seats.Work{})
		enter := func(name, owner string, class int) {
			q.enter(name, seats.Work{Owner: owner, Class: class, Operation: "o"}, forEver)
		}
		for i := range 6 {
			enter(fmt.Sprint("loud ", i), "loud", 1)
		}
		if !errors.Is(q.refused()["loud 5"], seats.ErrFull) || len(q.refused()) != 1 {
			t.Errorf("%v", q.refused())
		}
		enter("quiet 0", "quiet", 1)
		enter("quiet 1", "quiet", 1)
		if !errors.Is(q.refused()["loud 4"], seats.ErrDisplaced) || !errors.Is(q.refused()["loud 3"], seats.ErrDisplaced) || len(q.refused()) != 3 {
			t.Errorf("%v", q.refused())
		}
		enter("quiet 2", "quiet", 1) // it would be one of as many as the other has
		enter("loud's outcome", "loud", 0)
		if !errors.Is(q.refused()["quiet 2"], seats.ErrFull) && !errors.Is(q.refused()["loud 2"], seats.ErrDisplaced) {
			t.Errorf("%v", q.refused())
		}
		if q.refused()["quiet 0"] != nil || q.refused()["quiet 1"] != nil || q.refused()["loud's outcome"] != nil || len(q.refused()) != 5 {
			t.Errorf("%v", q.refused())
		}
	})
}

// Of many owners the one with most calls that wait loses one to each that comes.
func TestWhoHasMostLosesACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const quiet = 10
		q := newQueue(t, seats.Options{Seats: 1, Waiting: 2 * quiet, Classes: []seats.Class{{All: 1}}})
		take(t, q.seats, seats.Work{})
		enter := func(name, owner string) { q.enter(name, seats.Work{Owner: owner, Operation: "o"}, forEver) }
		for i := range quiet {
			enter(fmt.Sprint("loud ", i), "loud")
			enter(fmt.Sprint("quiet ", i), fmt.Sprint("quiet ", i))
		}
		for i := range quiet / 2 {
			enter(fmt.Sprint("late ", i), fmt.Sprint("late ", i))
			if gone := fmt.Sprint("loud ", quiet-1-i); !errors.Is(q.refused()[gone], seats.ErrDisplaced) || len(q.refused()) != i+1 {
				t.Errorf("after %d came: %v", i+1, q.refused())
			}
		}
	})
}

// Who leaves while it waits, or at the moment of its turn, keeps no seat.
func TestWhoLeavesKeepsNoSeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for range 200 { // select takes either side
			s := seats.New(seats.Options{Seats: 1, Waiting: 10})
			first := take(t, s, seats.Work{Owner: "a"})
			ctx, leave := context.WithCancel(t.Context())
			got := make(chan error, 1)
			go func() {
				seat, err := s.Take(ctx, seats.Work{Owner: "b"})
				if err == nil {
					seat.Leave()
				}
				got <- err
			}()
			synctest.Wait()
			leave()
			first.Leave()
			if err := <-got; err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if taken, waiting := s.Counts(0); taken != 0 || waiting != 0 {
				t.Fatalf("%d taken and %d waiting at the end", taken, waiting)
			}
			take(t, s, seats.Work{Owner: "c"}).Leave()
		}
	})
}
