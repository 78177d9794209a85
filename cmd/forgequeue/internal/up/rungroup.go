package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
)

// runGroup runs parts that lean on each other: the first that ends by itself ends
// all, and they are stopped one by one, the last started first.
type runGroup struct {
	// ctx ends when the whole is to stop.
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

// start runs a part until it is its turn to stop.
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

// stop ends the parts in order and gives what went wrong in any.
func (g *runGroup) stop() error {
	g.cancel(nil)
	var failures []error
	for _, p := range slices.Backward(g.parts) {
		p.stop()
		failures = append(failures, <-p.done)
	}
	return errors.Join(failures...)
}
