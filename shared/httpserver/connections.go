package httpserver

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// settleTimeout is how long a server that stops waits for the first request of
// connections that were opened just before: whoever connects has something to say.
const settleTimeout = 500 * time.Millisecond

// connections knows of a server's connections what a good end needs.
type connections struct {
	maxAge time.Duration
	// leaving says that each answer is the last of its connection.
	leaving atomic.Bool
	// fresh has the connections, by net.Conn, of which no request was heard yet.
	fresh sync.Map
}

// connection is what a request's context knows of the connection that it came by.
type connection struct {
	conn net.Conn
	// last is when it gets too old, zero for never.
	last time.Time
	// heard says that it is no longer fresh.
	heard atomic.Bool
}

type connectionKey struct{}

// opened is http.Server's ConnContext.
func (c *connections) opened(ctx context.Context, conn net.Conn) context.Context {
	c.fresh.Store(conn, struct{}{})
	made := &connection{conn: conn}
	if c.maxAge > 0 { // drawn, or all that were opened together would close together
		made.last = time.Now().Add(time.Duration((0.75 + rand.Float64()/2) * float64(c.maxAge))) //nolint:gosec // guards nothing
	}
	return context.WithValue(ctx, connectionKey{}, made)
}

// changed is http.Server's ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	if state == http.StateClosed || state == http.StateHijacked {
		c.fresh.Delete(conn)
	}
}

// retire makes each answer the last of its connection once the server is about to
// stop, or the connection is too old. An idle connection that the server closes may
// be one that a request is on its way on; one that the client was told to close never is.
func (c *connections) retire(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave := c.leaving.Load()
		if came, ok := r.Context().Value(connectionKey{}).(*connection); ok {
			if !came.heard.Swap(true) {
				c.fresh.Delete(came.conn)
			}
			leave = leave || !came.last.IsZero() && time.Now().After(came.last)
		}
		if leave {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// settle waits until a request of each connection was heard.
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
