//go:build unix

package up

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// maxFailures is how often in succession a store may end, or fail to start, before
	// up gives up. The count starts at zero again after settled without a failure.
	maxFailures = 5
	settled     = 12 * time.Second
	// firstPause is the backoff before the third start; it doubles with each. The
	// second start is immediate.
	firstPause = 500 * time.Millisecond
	// restartTime bounds one start, in which PostgreSQL may replay its log.
	restartTime = 5 * time.Minute
)

type startFunc func(context.Context) (*supervisor.Process, error)

// keepUp restarts a child that ends by itself, and stops it at the end. Its URL does not change: the socket is in
// its folder.
func (s *stores) keepUp(ctx context.Context, name string, log *slog.Logger, child *supervisor.Process, restart startFunc) {
	ctx = context.WithoutCancel(ctx) // the stop, not the signal to stop, ends a child
	stopping, stop := context.WithCancel(ctx)
	k := &keeper{name: name, log: log, restart: restart, started: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stopping.Done():
				return
			case <-child.Done():
			}
			again, err := k.again(stopping, child.Err())
			if err != nil {
				s.broken <- err
				return
			}
			child = again
		}
	}()
	s.stops = append(s.stops, func(ctx context.Context) error {
		stop()
		<-done
		return child.Stop(ctx)
	})
}

// keeper counts the failures of one store.
type keeper struct {
	name     string
	log      *slog.Logger
	restart  startFunc
	started  time.Time // the child that ran last
	failures int       // in a row
}

// again starts the store until it runs or has failed too often. It also returns an error when ctx ends, which
// keepUp ignores.
func (k *keeper) again(ctx context.Context, cause error) (*supervisor.Process, error) {
	if time.Since(k.started) >= settled {
		k.failures = 0
	}
	for {
		k.failures++
		k.log.Error("a store has ended and is started again", "store", k.name, "failures", k.failures, "error", cause)
		if k.failures >= maxFailures {
			return nil, fmt.Errorf("%s does not stay up: it ended or failed to start %d times in a row, the last time because: %w",
				k.name, k.failures, cause)
		}
		if k.failures > 1 {
			if err := wait.For(ctx, firstPause<<(k.failures-2)); err != nil {
				return nil, err
			}
		}
		starting, cancel := context.WithTimeout(ctx, restartTime)
		child, err := k.restart(starting)
		cancel()
		if err == nil {
			k.started = time.Now()
			return child, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		cause = err
	}
}
