// Package httpserver runs one HTTP server from listen to drain: it serves until its
// context ends, lets the requests in flight end, and has timeouts against clients
// that are slow to send, to read or to disconnect.
package httpserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// The bounds of one connection. A claim may wait for 25 s, and a body of 8 MiB may
// come over a slow line; slower clients are not served.
const (
	readHeaderTimeout = 5 * time.Second
	readBodyTimeout   = 20 * time.Second
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
	// leaveTimeout is what handlers get to notice that their context has ended.
	leaveTimeout = 500 * time.Millisecond
)

// WriteTimeout bounds a request from the end of its header to the end of its answer. What a handler writes after it is lost.
const WriteTimeout = 75 * time.Second

// Options says what to serve, and how to stop.
type Options struct {
	// Listener is open already, so that a port in use is an error before anything
	// else has started. Run closes it.
	Listener net.Listener
	Handler  http.Handler
	// Notice is how long requests are still accepted after OnDrain, so that load
	// balancers see readiness fail, and use other servers. During it connections are
	// closed after their next answer. Zero is none.
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
	// Conns bounds how many connections are open; the zero value is no bound.
	Conns Connections
	// MaxConnAge, where not 0, is how old a connection gets, give or take a quarter:
	// the answer after that is its last. So clients that keep connections also use
	// servers started later, if a name resolves to the address of each.
	MaxConnAge time.Duration
	// Logger gets the errors of net/http itself; the default logger if nil.
	Logger *slog.Logger
}

// ValidAddress says whether an address to listen on is host:port. The host may be empty, which is every address.
func ValidAddress(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port != ""
}

// Run serves until ctx ends, then drains: OnDrain, Notice, OnClose, no new
// connections, requests in flight have Grace to end, and what is left is closed.
// It gives nil after a clean drain. A request's context ends with its client or
// when Grace is over, not when ctx ends, so that a restart does not interrupt
// requests.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	base, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	conns := &connections{maxAge: o.MaxConnAge, limits: o.Conns}
	server := &http.Server{
		Handler:           boundBodies(conns.retire(o.Handler)),
		ConnContext:       conns.opened,
		ConnState:         conns.changed,
		ReadHeaderTimeout: readHeaderTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug), // scanners fill it: TLS on a plain port, half requests
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener{o.Listener, conns}) }()

	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", o.Listener.Addr(), err)
	case <-ctx.Done():
	}
	conns.leaving.Store(true)
	if o.OnDrain != nil {
		o.OnDrain()
	}
	if err := o.notice(served); err != nil {
		return err
	}
	if o.OnClose != nil {
		o.OnClose()
	}
	// Shutdown drops partly read requests without an answer. So the listener is closed
	// first, and requests on new connections are read.
	stopped := errors.Join(o.Listener.Close(), <-served)
	conns.settle()
	err := drain(base, server, o.Grace, endRequests)
	if !errors.Is(stopped, net.ErrClosed) {
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
