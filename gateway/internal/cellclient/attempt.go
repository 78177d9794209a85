package cellclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// reply is an answer read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
	conn   *conn // the connection it came by; nil if unknown
}

const (
	// usualTime bounds a try whose caller named no deadline. Core has the same.
	usualTime = 30 * time.Second
	// minTry is the least that a try gets where another could follow: a call with
	// less time than two of them has one try.
	minTry = time.Second
)

// DeadlineOf is when a call with this context ends.
func DeadlineOf(ctx context.Context) time.Time {
	if deadline, ok := ctx.Deadline(); ok {
		return deadline
	}
	return time.Now().Add(usualTime)
}

// try makes one try of a call, with its own timeout, and reports its result to
// the breaker.
func (c *Cell) try(ctx context.Context, op operation, body []byte, first bool) (_ reply, sent bool, _ error) {
	done, err := c.breakers.try(op.Class)
	if err != nil {
		c.metrics.refused(op.Class, err)
		return reply{}, false, err
	}
	if op.Class == hop.ClassParked {
		parked, end := c.park(ctx, op.place)
		defer end()
		return c.attempt(parked, c.carrier(op, first), op, body)
	}
	left := time.Until(DeadlineOf(ctx))
	own, cancel := context.WithTimeout(ctx, tryTime(left, first && op.mayRepeat()))
	defer cancel()
	answer, sent, err := c.attempt(own, c.carrier(op, first), op, body)
	done(verdict(ctx, answer, err))
	return answer, sent, err
}

// carrier gives the connections that a try may use.
func (c *Cell) carrier(op operation, first bool) *http.Transport {
	switch {
	case !first && op.Class != hop.ClassParked:
		return c.unpooled
	case op.Effect == hop.Writes:
		return c.recent
	}
	return c.transport
}

// tryTime reserves two fifths of the remaining time for a second try, if there can
// be one: a connection that does not respond must not use up the call's deadline.
func tryTime(left time.Duration, another bool) time.Duration {
	if another && left >= 2*minTry {
		return left * 3 / 5
	}
	return left
}

// attempt sends the body once. sent is whether core may have received it: false
// only if there was no connection; an uncertain case counts as sent.
func (c *Cell) attempt(ctx context.Context, by *http.Transport, op operation, body []byte) (_ reply, sent bool, _ error) {
	var via link
	request, err := c.request(ctx, c.prefix+op.Path, op.whose, body, &via)
	if err != nil {
		return reply{}, false, err
	}
	response, err := by.RoundTrip(request)
	if err != nil {
		// net/http itself retries after a first write that fails, but not with a body
		// larger than its buffer.
		return reply{}, via.connected.Load() && !errors.Is(err, errHungUp), err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or has failed already
	text, err := op.read(ctx, response)
	if err != nil {
		return reply{}, true, fmt.Errorf("read core's answer: %w", err)
	}
	return reply{response.StatusCode, response.Header, text, via.conn}, true, nil
}

// read reads a whole answer, into memory of its exact size if it has a Content-Length, as core's answers have.
func (o operation) read(ctx context.Context, response *http.Response) ([]byte, error) {
	if length := response.ContentLength; length >= 0 && length <= hop.MaxBody {
		if err := o.count(ctx, length); err != nil {
			return nil, err
		}
		text := make([]byte, length)
		_, err := io.ReadFull(response.Body, text)
		return text, err
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, hop.MaxBody+1))
	switch {
	case err != nil:
		return nil, err
	case len(text) > hop.MaxBody:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrContract, hop.MaxBody)
	}
	return text, o.count(ctx, int64(len(text)))
}

// link is the connection that a request got.
type link struct {
	connected atomic.Bool
	conn      *conn // nil if dial did not make it
}

// request has the headers that are set here and no others: nothing that a client
// sends can become a header of the hop. It is signed once it has a connection, by
// the clock of the core at its end; via is set to that connection. The transport
// itself retries when an idle connection is found closed and nothing was written to
// it (after the reader of the headers has ended); only the last of its tries counts.
func (c *Cell) request(ctx context.Context, path, owner string, body []byte, via *link) (*http.Request, error) {
	request, err := http.NewRequest(http.MethodPost, c.host+path, bytes.NewReader(body)) //nolint:noctx // it gets one below
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "forgequeue-gateway")
	if owner != "" {
		request.Header.Set(hop.OwnerHeader, owner)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := max(time.Until(deadline).Milliseconds(), 1)
		request.Header.Set(hop.TimeoutHeader, strconv.FormatInt(left, 10))
	}
	return request.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { via.connected.Store(false) },
		GotConn: func(got httptrace.GotConnInfo) {
			via.conn = ours(got.Conn)
			request.Header.Set(identity.Header, identity.Sign(c.secret, http.MethodPost, path, body, c.timeAt(via.conn)))
			via.connected.Store(true)
		},
	})), nil
}

// timeAt is the time at the core that a connection leads to.
func (c *Cell) timeAt(by *conn) time.Time {
	if by != nil {
		if offset := by.offset.Load(); offset != nil {
			return c.now().Add(*offset)
		}
	}
	return c.Now()
}

// learnClock takes core's clock from an assertion_expired refusal, and returns whether
// the reply was one. Core checks the signature first, so only a core with the same
// secret sends it. Cores whose clocks differ may be behind one address: each
// connection stores its own core's offset.
func (c *Cell) learnClock(from reply) bool {
	if !refusedWith(from.body, problem.AssertionExpired) {
		return false
	}
	micros, err := strconv.ParseInt(from.header.Get(identity.TimeHeader), 10, 64)
	if err != nil {
		return false
	}
	offset := time.UnixMicro(micros).Sub(c.now())
	if from.conn != nil {
		from.conn.offset.Store(&offset)
	}
	if moved := offset - time.Duration(c.offset.Swap(int64(offset))); moved.Abs() > time.Second {
		c.logger.Warn("core's clock differs from ours; signing with core's time", "offset_ms", offset.Milliseconds())
	}
	return true
}

const (
	// maxRedial bounds how long a call in doubt redials a core that is unreachable; a
	// core that restarts is back by then.
	maxRedial  = 5 * time.Second
	redialStep = 50 * time.Millisecond
)

// redial paces the redials of a call. The zero value has not begun.
type redial struct {
	until time.Time
	step  time.Duration
}

// wait pauses, longer each time and with jitter; false when the time is used up.
func (r *redial) wait(ctx context.Context) bool {
	if r.until.IsZero() {
		r.until, r.step = time.Now().Add(maxRedial), redialStep
	}
	pause := r.step/2 + rand.N(r.step) //nolint:gosec // jitter needs no secrecy
	r.step = min(2*r.step, 10*redialStep)
	if at := time.Now().Add(pause); at.After(r.until) || at.After(DeadlineOf(ctx)) {
		return false
	}
	return wait.For(ctx, pause) == nil
}
