package cellclient

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// hangUpTime is how long an answer that is on its way has to arrive after a parked
// call was hung up.
const hangUpTime = time.Second

// Drain ends the parked calls, now and from now on; others go on. What core had
// already answered still arrives.
func (c *Cell) Drain() { c.drain.Do(func() { close(c.draining) }) }

// IsDraining says whether Drain was called.
func (c *Cell) IsDraining() bool {
	select {
	case <-c.draining:
		return true
	default:
		return false
	}
}

// parkedCall is a parked call as its connection sees it.
type parkedCall struct {
	mu         sync.Mutex
	connection net.Conn // nil before there is one
	answered   bool
}

// park gives the context of a parked call's try. When its caller leaves, or the
// gateway drains, or the place goes to another owner, the call is hung up: our half
// of the connection is closed, by which core learns that the caller has left, but
// what core has already sent is still read. If the connection were cut instead, an
// answer in transit would be lost, and with it an attempt of each job that it
// leases: no worker would hold or release them.
func (c *Cell) park(ctx context.Context, at *place) (_ context.Context, end func()) {
	sending, cancel := context.WithDeadline(context.WithoutCancel(ctx), DeadlineOf(ctx))
	var call parkedCall
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-over:
			return
		case <-ctx.Done():
		case <-c.draining:
		case <-at.lost:
		}
		if !call.hangUp() {
			cancel()
			return
		}
		late := time.NewTimer(hangUpTime)
		defer late.Stop()
		select {
		case <-over:
		case <-late.C:
			cancel()
		}
	})
	traced := httptrace.WithClientTrace(sending, &httptrace.ClientTrace{GotConn: call.got, GotFirstResponseByte: call.answers})
	return traced, func() {
		close(over)
		watching.Wait()
		cancel()
	}
}

// got is called when the call has its connection.
func (p *parkedCall) got(info httptrace.GotConnInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connection = info.Conn
}

// answers is called when core's answer begins. The rest of it follows, and then
// another call may use the connection: from here on this call must not close it.
func (p *parkedCall) answers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connection, p.answered = nil, true
}

// hangUp closes our half of the connection; false where there is none to close,
// so that the call must be cut.
func (p *parkedCall) hangUp() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered {
		return true
	}
	return p.connection != nil && hangUp(p.connection)
}

// unparkedWait is about how long a caller waits for whose parked call there was no
// place.
const unparkedWait = time.Second

// ShortWait waits, at most for most, when there was no place for a parked call
// (ErrNoPlace), so that its caller does not call again at once.
func ShortWait(ctx context.Context, most time.Duration) {
	timer := time.NewTimer(min(most, unparkedWait/2+rand.N(unparkedWait))) //nolint:gosec // jitter needs no secrecy
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
