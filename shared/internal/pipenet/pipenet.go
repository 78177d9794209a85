// Package pipenet is a network for tests: an HTTP server on it runs inside a
// testing/synctest bubble, where time passes only when everybody waits, which a
// socket would never let it do.
package pipenet

import (
	"context"
	"net"
	"sync"
)

// Listener accepts what Dial dials. The zero value is not ready; New makes one.
type Listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// New makes a listener that is open.
func New() *Listener {
	return &Listener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept waits for a Dial. After Close it gives net.ErrClosed.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Dial connects, like a net.Dialer's. The address means nothing: there is one
// listener to reach. After Close it gives a *net.OpError.
func (l *Listener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "dial", Err: net.ErrClosed}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends Accept and Dial; again is harmless. Connections stay.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is made up.
func (*Listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }
