package groupcommit

// Turns says who is next among those that share something: whoever lines up much waits
// behind its own, not before others. It is start-time fair queueing (Goyal, Vin and
// Cheng, 1996): each request begins where its owner's last one ended, but not before
// what is being served now, and the earliest beginning is served first. The zero value
// is ready; it is not safe for concurrent use.
type Turns[K comparable] struct {
	now  int64       // the beginning that was served last
	ends map[K]int64 // where each owner's last request ends, if after now
	many int         // how large ends gets before it is looked through
}

// fewOwners is how many owners are remembered without a look at whether they still matter.
const fewOwners = 1024

// LineUp gives the beginning of a request of a weight.
func (t *Turns[K]) LineUp(owner K, weight int) (begin int64) {
	if t.ends == nil {
		t.ends, t.many = map[K]int64{}, fewOwners
	}
	if len(t.ends) >= t.many {
		for other, end := range t.ends {
			if end <= t.now {
				delete(t.ends, other)
			}
		}
		t.many = max(fewOwners, 2*len(t.ends))
	}
	begin = max(t.now, t.ends[owner])
	t.ends[owner] = begin + int64(max(weight, 1))
	return begin
}

// Served says that the turn of a beginning has come.
func (t *Turns[K]) Served(begin int64) { t.now = max(t.now, begin) }

// Idle says that nobody waits: all begin alike.
func (t *Turns[K]) Idle() { *t = Turns[K]{} }
