package broker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// OpenTime bounds the making of a connection: resolve, dial, TLS, log in.
	OpenTime = 15 * time.Second
	// IdleTime is how long an unused connection is kept, idleMost and idleOfTenant how many.
	IdleTime     = time.Minute
	idleMost     = 256
	idleOfTenant = 32
	sweepEvery   = 5 * time.Second
)

// Pool has the connections to brokers. One is made when a message needs it.
type Pool struct {
	protocols Protocols
	dialer    *outbound.Dialer
	sockets   sockets
	closing   sync.WaitGroup

	mu    sync.Mutex
	conns map[connKey]*entry
}

// connKey says whose connection it is, where to and as whom: a changed URL or password makes another.
type connKey struct {
	tenant              tenant.ID
	url, user, password string
}

// Connection is one to a broker. Publish returns when the broker has confirmed the message, ctx has ended, or the
// message is known to have failed. Usable says whether it can take more.
type Connection interface {
	Publish(ctx context.Context, to *api.Broker, m *Message) error
	Usable() bool
	Close()
}

// entry is a connection with its users. All but ready is guarded by the Pool's lock; conn and err are set before
// ready is closed.
type entry struct {
	key     connKey
	ready   chan struct{}
	conn    Connection
	err     error
	users   int
	used    time.Time
	retired bool
}

// NewPool makes one; Run closes what is idle.
func NewPool(o outbound.Options, protocols Protocols) *Pool {
	return &Pool{protocols: protocols, dialer: outbound.NewDialer(o), conns: map[connKey]*entry{}}
}

// Publish sends a message and waits for the broker's confirm. The error is a *RefusalError, one of the dial, or the cause
// of ctx. No message is sent twice by one call.
func (p *Pool) Publish(ctx context.Context, t *Target, m *Message) error {
	e := p.enter(ctx, t)
	defer p.leave(e)
	select {
	case <-e.ready:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if e.err != nil {
		return e.err
	}
	err := e.conn.Publish(ctx, t.Broker, m)
	if ctx.Err() != nil && err != nil {
		p.retire(e) // the message may still be on its way
		err = context.Cause(ctx)
	}
	return err
}

// enter gives a connection that is there, or being made.
func (p *Pool) enter(ctx context.Context, t *Target) *entry {
	key := connKey{tenant: t.Tenant, url: t.Broker.URL.String(), user: t.User, password: t.Password}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.conns[key]
	if e != nil && e.isOver() {
		p.drop(e)
		e = nil
	}
	if e == nil {
		e = &entry{key: key, ready: make(chan struct{}), users: 1} // the opening is one
		p.conns[key] = e
		p.closing.Go(func() { p.open(context.WithoutCancel(ctx), e, t) }) // outlives the message that needs it first
	}
	e.users++
	return e
}

// isOver says that a connection takes no more messages.
func (e *entry) isOver() bool {
	select {
	case <-e.ready:
		return e.err != nil || !e.conn.Usable()
	default:
		return false
	}
}

func (p *Pool) open(ctx context.Context, e *entry, t *Target) {
	ctx, cancel := context.WithTimeoutCause(ctx, OpenTime, errNotMade)
	defer cancel()
	dial := func(ctx context.Context, host, port string, by Security) (*Socket, error) {
		return p.dial(ctx, e.key, host, port, by)
	}
	if protocol := p.protocols.of(t.Broker.URL.Scheme); protocol != nil {
		e.conn, e.err = protocol.Open(ctx, dial, p.dialer, t)
	} else {
		e.err = &RefusalError{Kind: KindRefused, Message: p.protocols.Lacks(t.Broker.URL)}
	}
	close(e.ready)
	if e.err != nil {
		p.retire(e)
	}
	p.leave(e)
}

// errNotMade ends the making of a connection.
var errNotMade = errors.New("broker: the connection was not made in time")

// retire gives a connection no more messages.
func (p *Pool) retire(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(e)
}

// drop takes a connection out of the pool, and closes it when its last user has left. The caller holds the lock.
func (p *Pool) drop(e *entry) {
	if p.conns[e.key] == e {
		delete(p.conns, e.key)
	}
	if e.retired = true; e.users == 0 {
		p.end(e)
	}
}

// end closes a connection without users, once. It may take a while: not under the caller's lock.
func (p *Pool) end(e *entry) {
	if e.conn != nil {
		conn := e.conn
		e.conn = nil
		p.closing.Go(conn.Close)
	}
}

func (p *Pool) leave(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.users--
	e.used = time.Now()
	if e.users > 0 {
		return
	}
	if e.retired {
		p.end(e)
		return
	}
	p.bound(e.key.tenant)
}

// bound closes the connections that were not used for longest, of those that are too many. The caller holds the lock.
func (p *Pool) bound(owner tenant.ID) {
	var oldest, oldestOfOwner *entry
	idle, idleOfOwner := 0, 0
	older := func(e, than *entry) bool { return than == nil || e.used.Before(than.used) }
	for _, e := range p.conns {
		if e.users > 0 {
			continue
		}
		if idle++; older(e, oldest) {
			oldest = e
		}
		if e.key.tenant != owner {
			continue
		}
		if idleOfOwner++; older(e, oldestOfOwner) {
			oldestOfOwner = e
		}
	}
	switch {
	case idleOfOwner > idleOfTenant:
		p.drop(oldestOfOwner)
	case idle > idleMost:
		p.drop(oldest)
	}
}

// Run closes connections that are idle or over, until ctx ends; then all of them, and it returns when they are closed.
// Messages are no longer published then.
func (p *Pool) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.sweep(func(*entry) bool { return true })
			p.closing.Wait()
			return
		case <-ticker.C:
			p.sweep(p.isDone)
		}
	}
}

// isDone says that a connection without users is idle for too long, or over.
func (p *Pool) isDone(e *entry) bool {
	return e.users == 0 && (time.Since(e.used) > IdleTime || e.isOver())
}

func (p *Pool) sweep(ends func(*entry) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.conns {
		if ends(e) {
			p.drop(e)
		}
	}
}
