// Package httpserver runs one HTTP server from listen to drain: it serves until
// told to stop, lets the requests in flight end, and is bounded against clients
// that are slow to send, to read or to leave.
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
	// Grace is how long requests in flight may take to end once ctx has. Zero
	// closes them at once.
	Grace time.Duration
	// OnDrain, where set, is called when draining begins, before the listener
	// closes: the place to make readiness fail.
	OnDrain func()
	// Logger gets what net/http itself complains of; the default logger if nil.
	Logger *slog.Logger
}

// Run serves until ctx ends, then drains: OnDrain, no new connections, requests
// in flight have Grace to end, and what is left is closed. It gives nil after a
// clean drain. A request's context ends with its client or when Grace is over,
// not when ctx ends, so that nothing under way is cut short by a restart.
func Run(ctx context.Context, o Options) error {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	base, endRequests := context.WithCancel(context.WithoutCancel(ctx))
	defer endRequests()
	server := &http.Server{
		Handler:           boundBodies(o.Handler),
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
	if o.OnDrain != nil {
		o.OnDrain()
	}
	err := drain(base, server, o.Grace, endRequests)
	// Serve returns as soon as Shutdown or Close has begun.
	if stopped := <-served; !errors.Is(stopped, http.ErrServerClosed) {
		err = errors.Join(err, fmt.Errorf("serve on %s: %w", o.Listener.Addr(), stopped))
	}
	return err
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
