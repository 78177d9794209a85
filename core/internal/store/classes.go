package store

import (
	"container/list"
	"context"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Class is the priority of a call (D8): when connections are short, the higher one is first, and
// some connections are reserved for it. A late heartbeat expires a lease, which makes more work; a
// late list does not.
type Class int

const (
	// ClassOutcomes are heartbeats, outcomes, and what they depend on: keys, partitions, the
	// reaper.
	ClassOutcomes Class = iota
	// classClaims are claims and the duties behind them. It is the default.
	classClaims
	// ClassSubmits are submits, administrative changes, and look-ups of single jobs.
	ClassSubmits
	// ClassLists are lists, counts and reports.
	ClassLists
	classes
)

type classKey struct{}

// WithClass sets the class of the calls with the context. The first one set stays: a look-up within
// a cancel has the cancel's class.
func WithClass(ctx context.Context, c Class) context.Context {
	if ctx.Value(classKey{}) != nil {
		return ctx
	}
	return context.WithValue(ctx, classKey{}, c)
}

func classOf(ctx context.Context) Class {
	if c, ok := ctx.Value(classKey{}).(Class); ok {
		return c
	}
	return classClaims
}

// places admits calls to the pool's connections.
type places struct {
	mu sync.Mutex
	// most is how many connections a class and all lower ones may hold together. So lists leave
	// half of them to others, and an eighth is always reserved for outcomes. It never rises from
	// class to class: if a class finds a free place, so do all higher ones.
	most    [classes]int
	held    [classes]int
	waiting [classes]list.List // of chan struct{}, closed when the place is given
}

func newPlaces(n int) *places {
	part := func(left int) int { return max(n-max(left, 1), 1) }
	return &places{most: [classes]int{ClassOutcomes: n, classClaims: part(n / 8), ClassSubmits: part(n / 4), ClassLists: part(n - n/2)}}
}

func (p *places) free(c Class) bool {
	held := 0
	for k := classes - 1; k >= 0; k-- {
		held += p.held[k]
		if k <= c && held >= p.most[k] {
			return false
		}
	}
	return true
}

// take waits for a place, in order of arrival in its class. Each place is given back by one call of
// give.
func (p *places) take(ctx context.Context, c Class) error {
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
	case <-given: // at the same moment; the next waiter gets it
		p.pass(c)
	default:
		p.waiting[c].Remove(waiter)
	}
	return ctx.Err()
}

func (p *places) give(c Class) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pass(c)
}

// pass gives a place back and free places to waiters, the higher classes first.
func (p *places) pass(c Class) {
	p.held[c]--
	for k := range classes {
		for p.waiting[k].Len() > 0 && p.free(k) {
			p.held[k]++
			close(p.waiting[k].Remove(p.waiting[k].Front()).(chan struct{})) //nolint:forcetypeassert // nothing else is put in
		}
	}
}

// waits is how many calls wait for a place.
func (p *places) waits() (n int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.waiting {
		n += int32(p.waiting[c].Len()) //nolint:gosec // far below
	}
	return n
}

// Conn is a connection of the pool, with its place.
type Conn struct {
	*pgxpool.Conn
	places *places
	class  Class
}

// Release gives both back.
func (l *Conn) Release() {
	l.Conn.Release()
	l.places.give(l.class)
}
