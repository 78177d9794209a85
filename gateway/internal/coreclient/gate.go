package coreclient

import (
	"context"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// maxPatience is how long a call may wait for its turn. A longer wait is refused, so
// that the caller learns early that it must retry.
const maxPatience = 2 * time.Second

// waitingPerCall is how many calls may wait per call that may be in flight.
const waitingPerCall = 2

// Why a call was turned away: labels of metrics.
const (
	reasonFull      = "queue_full"
	reasonDisplaced = "displaced"
	reasonWaited    = "waited"
	reasonParked    = "parked_full"
	reasonOpen      = "breaker_open"
	// why a call is sent again
	reasonNotSent   = "not_sent"
	reasonReplyLost = "reply_lost"
)

// gate bounds the calls in flight. A breaker only counts calls that have ended:
// while core hangs, this bounds the gateway's memory, and reserves places for the
// more urgent classes.
type gate struct {
	mu    sync.Mutex
	queue admissionQueue

	claims, waits places
}

func newGate(inFlight, parked int) *gate {
	return &gate{
		queue:  newAdmissionQueue(inFlight, waitingPerCall*inFlight),
		claims: places{most: parked}, waits: places{most: parked},
	}
}

// enter waits for the turn of a call. When it fails, nothing has been sent.
// Each call that has entered must leave.
func (g *gate) enter(ctx context.Context, c hop.Class, whose string) error {
	g.mu.Lock()
	if g.queue.begin(c) { // nearly always
		g.mu.Unlock()
		return nil
	}
	w := newWaiter(c, whose)
	_, waits, displaced := g.queue.enter(w)
	g.mu.Unlock()
	if displaced != nil {
		displaced.Value <- turnedAwayError{reasonDisplaced}
	}
	if !waits {
		return turnedAwayError{reasonFull}
	}
	return g.wait(ctx, w)
}

func (g *gate) wait(ctx context.Context, w *waiter) error {
	patience := time.NewTimer(patience(ctx))
	defer patience.Stop()
	var why error
	select {
	case err := <-w.Value:
		return err
	case <-ctx.Done():
		why = ctx.Err()
	case <-patience.C:
		why = turnedAwayError{reasonWaited}
	}
	g.mu.Lock()
	waited := g.queue.abandon(w)
	g.mu.Unlock()
	if waited {
		return why
	}
	// The turn came at the same time. A caller that has left does not use it.
	err := <-w.Value
	if err == nil && ctx.Err() != nil {
		g.leave(hop.Class(w.Class))
		return ctx.Err()
	}
	return err
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

// leave ends a call and starts the next ones that wait.
func (g *gate) leave(c hop.Class) {
	g.mu.Lock()
	started := g.queue.leave(c)
	g.mu.Unlock()
	for _, next := range started {
		next.Value <- nil
	}
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
	g.mu.Lock()
	defer g.mu.Unlock()
	if c == hop.ClassParked {
		return g.claims.taken + g.waits.taken, 0
	}
	return g.queue.busy[c], g.queue.waiting.LenClass(int(c))
}
