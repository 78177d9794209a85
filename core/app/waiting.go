package app

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// sayEvery is how often the log says that core still waits for its database.
const sayEvery = time.Minute

// whenThere opens the database. While it is away, core waits for it, and says so: in the log, and on public, where
// /readyz is 503 with the reason. An error that waiting does not change is returned at once.
func whenThere(ctx context.Context, log *slog.Logger, public net.Listener, open func(context.Context) error) error {
	err := open(ctx)
	reason := store.Away(err)
	if reason == "" {
		return err
	}
	said := time.Now()
	log.WarnContext(ctx, "core waits for its database", "reason", reason, "error", err)
	var why atomic.Pointer[string]
	why.Store(&reason)
	stop := answerMeanwhile(ctx, log, public, func() string { return *why.Load() })
	defer stop()
	for reason != "" {
		if wait.About(ctx, openPause) != nil {
			return nil // stopped meanwhile
		}
		if err = open(ctx); err != nil && ctx.Err() != nil {
			return nil // stopped meanwhile
		}
		reason = store.Away(err)
		why.Store(&reason)
		if reason != "" && time.Since(said) >= sayEvery {
			said = time.Now()
			log.WarnContext(ctx, "core still waits for its database", "reason", reason, "error", err)
		}
	}
	if err == nil {
		log.InfoContext(ctx, "core has reached its database")
	}
	return err
}

// answerMeanwhile serves on a listener until stop is called, and leaves it open.
func answerMeanwhile(ctx context.Context, log *slog.Logger, public net.Listener, reason func() string) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	lent := &lentListener{Listener: public}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		err := httpserver.Run(ctx, httpserver.Options{
			Listener: lent, Handler: httpapi.Waiting(reason), Notice: drainNotice, Grace: time.Second, Logger: log,
			Conns: httpserver.Connections{Most: httpserver.DefaultConnections()},
		})
		if err != nil {
			log.WarnContext(ctx, "what core answered while it waited did not end well", "error", err)
		}
	}()
	return func() {
		end()
		<-ended
		lent.takeBack()
	}
}

// lentListener is a listener that one server has before another one: Close ends what waits in Accept, and no more.
type lentListener struct {
	net.Listener
	closed atomic.Bool
}

// interruptible is a listener whose Accept ends at a time; TCP's and those of sockets are.
type interruptible interface{ SetDeadline(time.Time) error }

func (l *lentListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil && l.closed.Load() {
		return nil, net.ErrClosed
	}
	return conn, err
}

func (l *lentListener) Close() error {
	l.closed.Store(true)
	if within, ok := l.Listener.(interruptible); ok {
		return within.SetDeadline(time.Now())
	}
	return l.Listener.Close()
}

// takeBack makes the listener ready for the next server.
func (l *lentListener) takeBack() {
	if within, ok := l.Listener.(interruptible); ok {
		_ = within.SetDeadline(time.Time{}) // closed meanwhile: the next server notices
	}
}
