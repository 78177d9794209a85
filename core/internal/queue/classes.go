package queue

import (
	"container/list"
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// class is how urgent a call is (D8): where connections are short, the more urgent
// goes first, and some connections are kept for it. A late heartbeat makes an expired
// lease, which makes more work; a late list makes nothing.
type class int

const (
	// classOutcomes are heartbeats, outcomes, and what keeps them possible: keys,
	// partitions, the reaper.
	classOutcomes class = iota
	// classClaims are claims and the duties behind them. What names no class has this.
	classClaims
	// classSubmits are submits, changes that people make, and look-ups of single jobs.
	classSubmits
	// classLists are lists, counts and reports.
	classLists
	classes
)

type classKey struct{}

// withClass names the class of the calls made with the context. The first name stands:
// a look-up on the way of a cancel has the cancel's class.
func withClass(ctx context.Context, c class) context.Context {
	if ctx.Value(classKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, classKey{}, c)
}

func classOf(ctx context.Context) class {
	if c, ok := ctx.Value(classKey{}).(class); ok {
		return c
	}
	return classClaims
}

// places admits calls to the pool's connections.
type places struct {
	mu sync.Mutex
	// most is how many connections a class and all that are less urgent may hold
	// together. So lists leave half of them to others, and an eighth is always left to
	// outcomes. It falls from class to class, or stays: where a class finds a place
	// free, so do all that are more urgent.
	most    [classes]int
	held    [classes]int
	waiting [classes]list.List // of chan struct{}, closed when the place is given
}

func newPlaces(n int) *places {
	part := func(left int) int { return max(n-max(left, 1), 1) }
	return &places{most: [classes]int{classOutcomes: n, classClaims: part(n / 8), classSubmits: part(n / 4), classLists: part(n - n/2)}}
}

func (p *places) free(c class) bool {
	held := 0
	for k := classes - 1; k >= 0; k-- {
		held += p.held[k]
		if k <= c && held >= p.most[k] {
			return false
		}
	}
	return true
}

// take waits for a place, in order of arrival in its class. Each place that was taken
// is given back by one call of give.
func (p *places) take(ctx context.Context, c class) error {
	p.mu.Lock()
	if p.waiting[c].Len() == 0 && p.free(c) {
		p.held[c]++
		p.mu.Unlock()
		return nil
	}
	given := make(chan struct{})
	waiter := p.waiting[c].PushBack(given)
	p.mu.Unlock()
	select {
	case <-given:
		return nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-given: // at the same moment; the next one has it
		p.pass(c)
	default:
		p.waiting[c].Remove(waiter)
	}
	return ctx.Err()
}

func (p *places) give(c class) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(c)
}

// pass takes a place back and gives what is free to those who wait, the more urgent first.
func (p *places) pass(c class) {
	p.held[c]--
	for k := range classes {
		for p.waiting[k].Len() > 0 && p.free(k) {
			p.held[k]++
			close(p.waiting[k].Remove(p.waiting[k].Front()).(chan struct{})) //nolint:forcetypeassert // nothing else is put in
		}
	}
}

// lent is a connection of the pool, with its place.
type lent struct {
	*pgxpool.Conn
	places *places
	class  class
}

// Release gives both back.
func (l *lent) Release() {
	l.Conn.Release()
	l.places.give(l.class)
}
