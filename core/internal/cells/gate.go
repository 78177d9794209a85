package cells

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

const (
	// beatEvery is the pause between two questions to a database, beatTime how long an answer may take: a
	// call to a frozen one waits for at most as long as both.
	beatEvery = 500 * time.Millisecond
	beatTime  = 4 * time.Second
)

// Gate says whether a cell answers. A cell that does not is asked nothing but one question at a time:
// calls to it are refused at once, and take neither a goroutine nor a connection.
type Gate struct {
	mu   sync.Mutex
	open bool
	// calls are those under way, by their number; last is the newest number.
	calls map[uint64]context.CancelCauseFunc
	last  uint64
}

// NewGate makes a closed gate.
func NewGate() *Gate { return &Gate{calls: map[uint64]context.CancelCauseFunc{}} }

// Open says whether the cell answers.
func (g *Gate) Open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

// Through gives a context that also ends, with store.ErrUnavailable as its cause, when the gate closes.
func (g *Gate) Through(ctx context.Context) (through context.Context, leave context.CancelFunc) {
	through, cancel := context.WithCancelCause(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		cancel(store.ErrUnavailable)
		return through, func() {}
	}
	g.last++
	call := g.last
	g.calls[call] = cancel
	return through, func() {
		g.mu.Lock()
		delete(g.calls, call)
		g.mu.Unlock()
		cancel(nil)
	}
}

// Set opens or closes the gate, and says whether that is a change.
func (g *Gate) Set(open bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == open {
		return false
	}
	if g.open = open; !open {
		for _, end := range g.calls {
			end(store.ErrUnavailable)
		}
		clear(g.calls)
	}
	return true
}

// Watch opens and closes the gate as the cell's database answers, until ctx ends.
func (g *Gate) Watch(ctx context.Context, pulse *store.Pulse, name string, log *slog.Logger) {
	defer pulse.Close(ctx)
	for ctx.Err() == nil {
		err := pulse.Beat(ctx, beatTime)
		if ctx.Err() != nil {
			return
		}
		if g.Set(err == nil) {
			if err == nil {
				log.InfoContext(ctx, "a cell answers", "cell", name)
			} else {
				log.ErrorContext(ctx, "a cell does not answer; its tenants are refused", "cell", name, "error", err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(beatEvery):
		}
	}
}
