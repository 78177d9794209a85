// Package httpserver runs one HTTP server from listen to drain: it serves until
// told to stop, lets the requests in flight end, and is bounded against clients
// that are slow to send, to read or to leave.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// The bounds of one connection. A claim may wait for 25 s, and a body of 8 MiB
// may come over a slow line; what goes beyond is not a client we can serve.
const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 20 * time.Second
	writeTimeout      = 75 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// leaveTimeout is what handlers get to notice that their context has ended.
	leaveTimeout = 500 * time.Millisecond
)

// Options says what to serve, and how to stop.
type Options struct {
	// Listener is open already, so that a port in use is an error before anything
	// else has started. Run closes it.
	Listener net.Listener
	Handler  http.Handler
	// Notice is how long requests are still taken after OnDrain, so that whoever
	// sends them sees that readiness fails, and goes elsewhere. Connections are closed
	// after their next answer meanwhile. Zero is none.
	Notice time.Duration
	// Grace is how long requests in flight may take to end once ctx has. Zero
	// closes them at once.
	Grace time.Duration
	// OnDrain, where set, is called when draining begins: the place to make readiness
	// fail.
	OnDrain func()
	// OnClose, where set, is called after Notice, when the listener is about to close:
	// the place to end requests that only wait.
	OnClose func()
	// MaxConnAge, where not 0, is how old a connection gets, give or take a quarter:
	// the answer after that is its last. So clients that keep connections find servers
	// that have come since, where a name has an address for each.
	MaxConnAge time.Duration
	// Logger gets what net/http itself complains of; the default logger if nil.
	Logger *slog.Logger
}

// Run serves until ctx ends, then drains: OnDrain, Notice, OnClose, no new
// connections, requests in flight have Grace to end, and what is left is closed.
// It gives nil after a clean drain. A request's context ends with its client or
// when Grace is over, not when ctx ends, so that nothing under way is cut short by
// a restart.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	base, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	var leaving atomic.Bool
	server := &http.Server{
		Handler:           boundBodies(retire(&leaving, o.Handler)),
		ConnContext:       o.connContext,
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // scanners fill it: TLS on a plain port, half requests
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(o.Listener) }()

	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", o.Listener.Addr(), err)
	case <-ctx.Done():
	}
	leaving.Store(true)
	if o.OnDrain != nil {
		o.OnDrain()
	}
	if err := o.notice(served); err != nil {
		return err
	}
	if o.OnClose != nil {
		o.OnClose()
	}
	err := drain(base, server, o.Grace, endRequests)
	// Serve returns as soon as Shutdown or Close has begun.
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve on %s: %w", o.Listener.Addr(), stopped))
	}
	return err
}

// notice goes on serving for a while. It fails if that does.
func (o Options) notice(served <-chan error) error {
	over := time.NewTimer(o.Notice)
	defer over.Stop()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", o.Listener.Addr(), err)
	case <-over.C:
		return nil
	}
}

// lastKey is where a connection's context has the time after which it is too old.
type lastKey struct{}

// connContext draws how old a new connection gets.
func (o Options) connContext(ctx context.Context, _ net.Conn) context.Context {
	if o.MaxConnAge == 0 {
		return ctx
	}
	// Drawn, or all that were opened together would close together.
	age := time.Duration((0.75 + rand.Float64()/2) * float64(o.MaxConnAge)) //nolint:gosec // guards nothing
	return context.WithValue(ctx, lastKey{}, time.Now().Add(age))
}

// retire makes each answer the last of its connection once the server is about to
// stop, or the connection is too old. An idle connection that the server closes may be one that a request is on
// its way on; one that the client was told to close never is.
func retire(leaving *atomic.Bool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last, aging := r.Context().Value(lastKey{}).(time.Time)
		if leaving.Load() || aging && time.Now().After(last) {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// drain waits for the requests in flight, then ends their contexts, and at last
// closes their connections.
func drain(base context.Context, server *http.Server, grace time.Duration, endRequests func()) error {
	err := shutdown(base, server, grace)
	if err == nil {
		return nil
	}
	endRequests()
	_ = shutdown(context.WithoutCancel(base), server, leaveTimeout) // Close below settles what this leaves
	return errors.Join(fmt.Errorf("drain: requests were still in flight after %v: %w", grace, err), server.Close())
}

func shutdown(ctx context.Context, server *http.Server, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return server.Shutdown(ctx)
}
