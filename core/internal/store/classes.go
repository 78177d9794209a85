package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/forgequeue/forgequeue/shared/server/seats"
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

type workKey struct{}

// WithWork says whose call the context is for, and of which operation: the owners of a class take turns by what they have
// used of the connections' time lately, and what an operation of theirs has taken before says how many places it takes.
// A call without an owner is for several.
func WithWork(ctx context.Context, owner, operation string) context.Context {
	return context.WithValue(ctx, workKey{}, seats.Work{Owner: owner, Operation: operation})
}

// longCall is what a call may take of a connection's time before it takes more than one place.
const longCall = 10 * time.Millisecond

// mostWaiting is how many calls may wait for a connection.
const mostWaiting = 4096

// newPlaces admits calls to the pool's connections: lists leave half of them to others, and an eighth is always reserved
// for outcomes. One owner's calls take an eighth while others have some to make: calls of one kind share transactions, and
// what is long keeps PostgreSQL's processors busy.
func newPlaces(n int, took func(operation string, took time.Duration)) *seats.Seats {
	part := func(left int) seats.Class {
		return seats.Class{All: max(n-left, 1), Share: max(n/8, 1), Unit: longCall, Widest: n / 8}
	}
	of := [classes]seats.Class{ClassOutcomes: part(0), classClaims: part(max(n/8, 1)), ClassSubmits: part(max(n/4, 1)), ClassLists: part(max(n-n/2, 1))}
	places := seats.New(seats.Options{Seats: n, Classes: of[:], Waiting: mostWaiting})
	if took != nil {
		places.Observe(took)
	}
	return places
}

// workOf is what a call takes a place for.
func workOf(ctx context.Context) seats.Work {
	work, _ := ctx.Value(workKey{}).(seats.Work)
	work.Class = int(classOf(ctx))
	return work
}

// Used is an owner's part of the time that all connections have together, an average of the last seconds: 1 is all of it.
func (s *Store) Used(owner string) float64 { return s.places.Used(owner) }

// waits is how many calls wait for a connection.
func (s *Store) waits() (n int32) {
	for class := range classes {
		_, waiting := s.places.Counts(int(class))
		n += int32(waiting) //nolint:gosec // far below
	}
	return n
}

// Conn is a connection of the pool, with its place.
type Conn struct {
	*pgxpool.Conn
	seat *seats.Seat
}

// Release gives both back.
func (l *Conn) Release() {
	l.Conn.Release()
	l.seat.Leave()
}
