package seats

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// model is what Seats must do, found by looking at everything that has come.
type model struct {
	*Seats

	now     time.Time
	running []*Seat
	waiting []*waiter // in the order in which they came
}

var owners = []string{"", "a", "b", "c"}

// Whatever comes and goes: no bound is passed, nobody is overtaken by his like, no seat stays empty that all who wait in a
// class may have, and who is displaced is the newest of the owner with the most.
func TestSeatsKeepTheirRules(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{now: time.Now()}
		n := rapid.IntRange(1, 12).Draw(t, "seats")
		class := func(all int) Class {
			return Class{
				All: all, Own: rapid.IntRange(0, n).Draw(t, "own"), Share: rapid.IntRange(0, n).Draw(t, "share"),
				Unit: 10 * time.Millisecond, Widest: max(n/2, 1),
			}
		}
		m.Seats = New(Options{
			Seats: n, Waiting: rapid.IntRange(0, 8).Draw(t, "waiting"),
			Classes: []Class{class(n), class(max(n*3/4, 1)), class(max(n/2, 1))},
			Now:     func() time.Time { return m.now },
		})
		t.Repeat(map[string]func(*rapid.T){"enter": m.enters, "leave": m.leaves, "abandon": m.abandons, "": m.check})
	})
}

func (m *model) enters(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 50).Draw(t, "ms")) * time.Millisecond)
	work := Work{
		Class: rapid.IntRange(0, 2).Draw(t, "class"), Owner: rapid.SampledFrom(owners).Draw(t, "owner"),
		Operation: rapid.SampledFrom([]string{"short", "long"}).Draw(t, "operation"),
	}
	before := slices.Clone(m.waiting)
	seat, waits, err := m.begin(work)
	switch {
	case err != nil:
		if len(before) < m.options.Waiting {
			t.Fatalf("refused though only %d wait", len(before))
		}
		if most := mostOf(before, work.Owner); most > countOf(before, work.Owner)+1 {
			t.Fatalf("refused with %d that wait, and another owner has %d", countOf(before, work.Owner), most)
		}
	case waits == nil:
		m.running = append(m.running, seat)
	default:
		m.waiting = append(m.waiting, waits)
	}
	m.settle(t, before, work.Owner)
}

// settle moves those whose turn has come.
func (m *model) settle(t *rapid.T, before []*waiter, newest string) {
	for _, one := range slices.Clone(m.waiting) {
		select {
		case err := <-one.turn:
			at := slices.Index(m.waiting, one)
			if err == nil {
				for _, earlier := range m.waiting[:at] {
					if earlier.work.Class == one.work.Class && earlier.work.Owner == one.work.Owner {
						t.Fatal("overtaken by its like")
					}
				}
				m.running = append(m.running, one.Seat)
			} else if most := max(mostOf(before, newest), countOf(before, newest)+1); countOf(before, one.work.Owner) < most && one.work.Owner != newest {
				t.Fatalf("displaced: one of %d, and another owner has %d", countOf(before, one.work.Owner), most)
			}
			m.waiting = slices.Delete(m.waiting, at, at+1)
		default:
		}
	}
}

func countOf(waiting []*waiter, owner string) (n int) {
	for _, one := range waiting {
		if one.work.Owner == owner {
			n++
		}
	}
	return n
}

// mostOf is how many calls the owner has that has the most, the given one aside.
func mostOf(waiting []*waiter, except string) (most int) {
	for _, owner := range owners {
		if owner != except {
			most = max(most, countOf(waiting, owner))
		}
	}
	return most
}

func (m *model) leaves(t *rapid.T) {
	if len(m.running) == 0 {
		t.Skip("nothing runs")
	}
	at := rapid.IntRange(0, len(m.running)-1).Draw(t, "which")
	seat := m.running[at]
	took := time.Millisecond
	if seat.work.Operation == "long" {
		took = 40 * time.Millisecond
	}
	m.now = m.now.Add(took)
	m.running = slices.Delete(m.running, at, at+1)
	seat.Leave()
	m.settle(t, nil, "")
}

func (m *model) abandons(t *rapid.T) {
	if len(m.waiting) == 0 {
		t.Skip("nobody waits")
	}
	at := rapid.IntRange(0, len(m.waiting)-1).Draw(t, "which")
	one := m.waiting[at]
	if !m.abandon(one) || m.abandon(one) {
		t.Fatal("abandon is not once")
	}
	m.waiting = slices.Delete(m.waiting, at, at+1)
	m.settle(t, nil, "")
}

func (m *model) check(t *rapid.T) {
	if len(m.waiting) > m.options.Waiting || m.waits != len(m.waiting) {
		t.Fatalf("%d wait, it says %d, and %d may", len(m.waiting), m.waits, m.options.Waiting)
	}
	for class, of := range m.options.Classes {
		together, own, calls := 0, 0, 0
		byOwner := map[string]int{}
		for _, seat := range m.running {
			if seat.work.Class >= class {
				together += seat.width
				calls++
			}
			if seat.work.Class == class {
				own += seat.width
				byOwner[seat.work.Owner] += seat.width
			}
		}
		if taken, _ := m.Counts(class); taken != own {
			t.Fatalf("class %d: %d seats are taken, it says %d", class, own, taken)
		}
		if calls > 1 && together > of.All || of.Own > 0 && len(byOwner) > 1 && own > of.Own {
			t.Fatalf("class %d: %d seats, %d with what is less urgent, of %+v", class, own, together, of)
		}
		m.checkLine(t, class)
	}
}

// checkLine fails where all that are first of their owner in a class could start.
func (m *model) checkLine(t *rapid.T, class int) {
	seen, some := map[string]bool{}, false
	for _, one := range m.waiting {
		if one.work.Class != class || seen[one.work.Owner] {
			continue
		}
		seen[one.work.Owner], some = true, true
		if !m.admits(one.Seat, m.now) {
			return
		}
	}
	if some {
		t.Fatalf("class %d: all that wait may start", class)
	}
}
