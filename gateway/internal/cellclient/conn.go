package cellclient

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

var errHungUp = errors.New("cellclient: this connection was hung up")

// conn is a connection to core that can be hung up: our half is closed while
// core's answer is still read.
//
// net/http does not know of that, and returns the connection to the idle ones once
// the answer has been read. The next request on it must fail before anything is
// written, because net/http then takes another connection: so the first write
// fails, and until then the EOF of core's half, which net/http would take for a
// lost answer, is withheld from it.
type conn struct {
	net.Conn
	hung     atomic.Bool
	answered atomic.Bool // something was read since the last write
	closed   chan struct{}
	closing  sync.Once
	// offset is the clock of the core at its end minus ours; nil until it is known.
	offset atomic.Pointer[time.Duration]
}

// dial makes connections that can be hung up.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	inner, err := (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: inner, closed: make(chan struct{})}, nil
}

func (c *conn) Write(p []byte) (int, error) {
	if c.hung.Load() {
		return 0, errHungUp
	}
	c.answered.Store(false)
	return c.Conn.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.answered.Store(true)
	} else if err != nil && c.hung.Load() && c.answered.Load() {
		<-c.closed
	}
	return n, err
}

func (c *conn) Close() error {
	c.closing.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// hangUp closes our half of a connection that dial made, through TLS where there
// is any; false where that cannot be done.
func hangUp(given net.Conn) bool {
	half, ok := given.(interface{ CloseWrite() error })
	own := ours(given)
	if own == nil {
		return false
	}
	if !ok {
		half, ok = own.Conn.(interface{ CloseWrite() error })
	}
	if !ok {
		return false
	}
	defer own.hung.Store(true) // after the last byte of our half is sent
	return half.CloseWrite() == nil
}

// ours is the connection that dial made, unwrapped from TLS; nil for others.
func ours(given net.Conn) *conn {
	if secure, isTLS := given.(interface{ NetConn() net.Conn }); isTLS {
		given = secure.NetConn()
	}
	own, _ := given.(*conn)
	return own
}
