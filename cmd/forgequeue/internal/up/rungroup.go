//go:build unix

package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// runGroup runs parts that depend on those started before them: the first that ends by itself ends all, and they
// are stopped one by one, in the opposite order of their start.
type runGroup struct {
	// ctx ends when all are to stop.
	ctx    context.Context
	cancel context.CancelCauseFunc
	log    *slog.Logger
	parts  []part
}

type part struct {
	name string
	stop context.CancelFunc
	done chan error
}

func newRunGroup(ctx context.Context, log *slog.Logger) *runGroup {
	inner, cancel := context.WithCancelCause(ctx)
	return &runGroup{ctx: inner, cancel: cancel, log: log}
}

// start runs a part until stop reaches it.
func (g *runGroup) start(name string, run func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(g.ctx))
	p := part{name: name, stop: stop, done: make(chan error, 1)}
	g.parts = append(g.parts, p)
	go func() {
		err := run(ctx)
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		if ctx.Err() == nil {
			g.cancel(err)
		}
		p.done <- err
	}()
}

// stop ends the parts in order and returns all their errors.
func (g *runGroup) stop() error {
	g.cancel(nil)
	var failures []error
	for _, p := range slices.Backward(g.parts) {
		p.stop()
		failures = append(failures, <-p.done)
	}
	return errors.Join(failures...)
}
