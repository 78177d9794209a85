package httpserver

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// settleTimeout is how long a server that stops waits for the first request of
// connections that were opened just before: a client that connects sends a request.
const settleTimeout = 500 * time.Millisecond

// Connections bounds what a server has open. Where there is no room for a new
// connection, the one that has been idle longest is closed; where none is idle, the
// new one.
type Connections struct {
	// Most bounds all of them; 0 is no bound.
	Most int
	// PerAddress bounds those of one client address (IPv6: its /64); 0 is no bound.
	// Loopback has none.
	PerAddress int
	// Exempt, where set, names addresses that have no bound of their own, as those of
	// proxies. It is asked about the address itself, not its /64.
	Exempt func(netip.Addr) bool
}

const (
	// otherFiles is for the other files that a process opens.
	otherFiles = 128
	// mostFiles is a limit for processes that have none.
	mostFiles = 1 << 20
)

// DefaultConnections is how many connections a server may have by the process's limit of open
// files: a third of it. A client's connection may need one to core, and in a process
// with both services that one has two ends.
func DefaultConnections() int {
	return max(openFiles()-otherFiles, 3*otherFiles/8) / 3
}

// connections knows of a server's connections what their bounds and a good end need.
type connections struct {
	limits Connections
	maxAge time.Duration
	// leaving says that each answer is the last of its connection.
	leaving atomic.Bool
	// fresh has the connections on which no request has arrived yet.
	fresh sync.Map

	mu     sync.Mutex
	open   int
	owners map[netip.Addr]*owner
	idle   ring // all that are idle, longest first
}

// owner is an address that has connections.
type owner struct {
	open int
	idle ring // of these, longest first
}

// connection is one, and what a request's context knows of it.
type connection struct {
	net.Conn
	of   *connections
	from netip.Addr
	// exempt says that the bound per address does not hold for it.
	exempt bool
	// resting says that no byte has come since it got its places among the idle.
	resting atomic.Bool
	// last is when it gets too old, zero for never.
	last time.Time
	// heard: a request has arrived, so it is no longer fresh.
	heard atomic.Bool
	// serving says that a request is being answered.
	serving atomic.Bool

	// Guarded by connections.mu: whether it counts still, and its places among the idle.
	counts       bool
	inAll, inOwn link
}

type connectionKey struct{}

// listener accepts connections within the bounds.
type listener struct {
	net.Listener
	conns *connections
}

func (l listener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if made := l.conns.admit(raw); made != nil {
			return made, nil
		}
		_ = raw.Close() // it was never used
	}
}

// admit counts a connection, nil if there is no room for it. It is idle until a
// request comes.
func (c *connections) admit(raw net.Conn) *connection {
	address := addressOf(raw.RemoteAddr())
	made := &connection{Conn: raw, of: c, from: address, exempt: c.exempts(address)}
	if !made.exempt { // a proxy's do not count for others in its /64
		made.from = ownerOf(address)
	}
	made.inAll.conn, made.inOwn.conn = made, made
	if c.maxAge > 0 { // drawn, or all that were opened together would close together
		made.last = time.Now().Add(time.Duration((0.75 + rand.Float64()/2) * float64(c.maxAge))) //nolint:gosec // guards nothing
	}
	closed, ok := c.count(made)
	if closed != nil {
		_ = closed.Close() // its goroutine notices
	}
	if !ok {
		return nil
	}
	return made
}

// count makes room for a connection, and returns the one to be closed for it.
func (c *connections) count(made *connection) (closed *connection, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.owners == nil {
		c.owners = map[netip.Addr]*owner{}
	}
	full := false
	if own := c.owners[made.from]; own != nil && !made.exempt && own.open >= c.limits.PerAddress {
		closed, full = own.idle.first(), true
	} else if c.limits.Most > 0 && c.open >= c.limits.Most {
		closed, full = c.idle.first(), true
	}
	if full && closed == nil {
		return nil, false
	}
	if closed != nil {
		c.forget(closed)
	}
	own := c.owners[made.from]
	if own == nil {
		own = &owner{}
		c.owners[made.from] = own
	}
	made.counts = true
	c.open++
	own.open++
	c.rest(made, own)
	return closed, true
}

// exempts says whether an address may have as many as there are.
func (c *connections) exempts(address netip.Addr) bool {
	return c.limits.PerAddress <= 0 || !address.IsValid() || address.IsLoopback() || c.limits.Exempt != nil && c.limits.Exempt(address)
}

// rest puts a connection among the idle, and wake takes it out. Both need mu.
func (c *connections) rest(conn *connection, own *owner) {
	c.idle.push(&conn.inAll)
	own.idle.push(&conn.inOwn)
	conn.resting.Store(true)
}

// Read notes that a request begins: for net/http the connection is idle until all of
// the headers are there.
func (conn *connection) Read(p []byte) (int, error) {
	n, err := conn.Conn.Read(p)
	if n > 0 && conn.resting.CompareAndSwap(true, false) {
		conn.of.stir(conn)
	}
	return n, err
}

// stir puts an idle connection on which a request begins behind the others: they are
// closed before it. It stays among them: otherwise clients that never end their
// headers could occupy all connections.
func (c *connections) stir(conn *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn.inAll.next == nil { // busy, or closed
		return
	}
	own := c.owners[conn.from]
	c.wake(conn)
	c.idle.push(&conn.inAll)
	own.idle.push(&conn.inOwn)
}

func (c *connections) wake(conn *connection) {
	conn.inAll.remove()
	conn.inOwn.remove()
	conn.resting.Store(false)
}

// forget counts a connection no longer. It needs mu.
func (c *connections) forget(conn *connection) {
	if !conn.counts {
		return
	}
	conn.counts = false
	c.wake(conn)
	c.open--
	own := c.owners[conn.from]
	if own.open--; own.open == 0 {
		delete(c.owners, conn.from)
	}
}

// opened is http.Server's ConnContext.
func (c *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c.fresh.Store(conn, struct{}{})
	return context.WithValue(ctx, connectionKey{}, conn)
}

// changed is http.Server's ConnState.
func (c *connections) changed(of net.Conn, state http.ConnState) {
	conn, ok := of.(*connection)
	if !ok || state == http.StateNew {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateActive:
		c.wake(conn)
	case http.StateIdle:
		conn.serving.Store(false)
		if conn.counts {
			c.rest(conn, c.owners[conn.from])
		}
	default:
		c.fresh.Delete(of)
		c.forget(conn)
	}
}

// retire makes each answer the last of its connection once the server is about to
// stop, or the connection is too old. A request may be in transit on an idle connection
// that the server closes; never on one whose answer had Connection: close.
func (c *connections) retire(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave := c.leaving.Load()
		if came, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			came.serving.Store(true)
			if !came.heard.Swap(true) {
				c.fresh.Delete(net.Conn(came))
			}
			leave = leave || !came.last.IsZero() && time.Now().After(came.last)
		}
		if leave {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// settle waits until a request has arrived on each connection.
func (c *connections) settle() {
	for end := time.Now().Add(settleTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		quiet := true
		c.fresh.Range(func(any, any) bool {
			quiet = false
			return false
		})
		if quiet {
			return
		}
	}
}

// addressOf is a client's address; zero where there is none.
func addressOf(remote net.Addr) netip.Addr {
	tcp, ok := remote.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// ownerOf is the address that a client's counts as.
func ownerOf(address netip.Addr) netip.Addr {
	if !address.Is6() || address.IsLoopback() {
		return address
	}
	block, err := address.Prefix(64)
	if err != nil {
		return address
	}
	return block.Addr()
}
