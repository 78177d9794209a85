package cellclient

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// maxPatience is how long a call may wait for its turn. A longer wait is refused, so
// that the caller learns early that it must retry.
const maxPatience = 2 * time.Second

// waitingPerCall is how many calls may wait per call that may be in flight.
const waitingPerCall = 2

// A tenant's reads in flight, while others make calls too: so many, each of which takes less than shortRead, or fewer that
// take longer. Writes wait for their commit most of the time; reads cost time all along.
const (
	readsPerProcessor = 2
	shortRead         = time.Millisecond
)

// Why a call was turned away: labels of metrics.
const (
	reasonFull      = "queue_full"
	reasonDisplaced = "displaced"
	reasonWaited    = "waited"
	reasonParked    = "parked_full"
	reasonOpen      = "breaker_open"
	reasonMemory    = "memory"
	// why a call is sent again
	reasonNotSent   = "not_sent"
	reasonReplyLost = "reply_lost"
)

// gate bounds the calls in flight. A breaker only counts calls that have ended:
// while core hangs, this bounds the gateway's memory, and reserves places for the
// more urgent classes.
type gate struct {
	seats *seats.Seats

	mu            sync.Mutex
	claims, waits places
}

func newGate(inFlight, parked int) *gate {
	classes := classesOf(inFlight)
	return &gate{
		seats:  seats.New(seats.Options{Seats: inFlight, Classes: classes[:], Waiting: waitingPerCall * inFlight}),
		claims: places{most: parked}, waits: places{most: parked},
	}
}

// classesOf divides a number of calls in flight among classes. Each may have as many together with those below it in the
// table, so that a class never waits for higher ones; at least one, and it leaves at least one to each class before it, if
// there are as many calls as classes.
//
//	calls in flight  0 ─────────────────────────────────────────── 100 %
//	lease            ▏ heartbeats, outcomes                            ▕
//	key              ▏                                            ▕ 95
//	claim            ▏                                       ▕ 90
//	submit           ▏                             ▕ 80
//	read             ▏                    ▕ 65
//	list             ▏  ▕ 25
func classesOf(inFlight int) [hop.OrderedClasses]seats.Class {
	part := func(percent int, after hop.Class) int {
		return max(min(inFlight*percent/100, inFlight-int(after)), 1)
	}
	most, reads := max(inFlight*3/4, 1), readsPerProcessor*max(runtime.GOMAXPROCS(0), 2)
	return [hop.OrderedClasses]seats.Class{
		hop.ClassLease:  {All: inFlight, Share: most},
		hop.ClassKey:    {All: part(95, hop.ClassKey), Own: part(25, hop.ClassKey)},
		hop.ClassClaim:  {All: part(90, hop.ClassClaim), Share: most},
		hop.ClassSubmit: {All: part(80, hop.ClassSubmit), Share: most},
		hop.ClassRead:   {All: part(65, hop.ClassRead), Share: reads, Unit: shortRead, Widest: reads / 2},
		hop.ClassList:   {All: part(25, hop.ClassList), Share: reads, Unit: shortRead, Widest: reads / 2},
	}
}

// enter waits for the turn of a call. When it fails, nothing has been sent.
// Each call that has entered must leave its seat.
func (g *gate) enter(ctx context.Context, c hop.Class, whose, path string) (*seats.Seat, error) {
	seat, err := g.seats.TakeWithin(ctx, seats.Work{Class: int(c), Owner: whose, Operation: path}, patience(ctx))
	switch {
	case err == nil:
		return seat, nil
	case errors.Is(err, seats.ErrFull):
		return nil, turnedAwayError{reasonFull}
	case errors.Is(err, seats.ErrDisplaced):
		return nil, turnedAwayError{reasonDisplaced}
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, turnedAwayError{reasonWaited}
}

// patience leaves at least half of a call's time to core: work that starts too
// late ends after its caller has left.
func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxPatience
	}
	return min(time.Until(deadline)/2, maxPatience)
}

// park takes a place among the parked claims, or among those that watch a job. It
// does not wait for one.
func (g *gate) park(claim bool, whose string) (*place, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if taken := g.parked(claim).take(whose); taken != nil {
		return taken, nil
	}
	return nil, turnedAwayError{reasonParked}
}

func (g *gate) unpark(claim bool, left *place) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.parked(claim).leave(left)
}

func (g *gate) parked(claim bool) *places {
	if claim {
		return &g.claims
	}
	return &g.waits
}

// counts gives how many calls of a class are in flight, and how many wait.
func (g *gate) counts(c hop.Class) (busy, waiting int) {
	if c != hop.ClassParked {
		return g.seats.Counts(int(c))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.claims.taken + g.waits.taken, 0
}
