// Package interrupt ends programs by signals: the first one begins an orderly stop, the
// second one ends the process.
package interrupt

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// Context gives a context that ends with the first of the signals, os.Interrupt and
// SIGTERM where none is named, or with parent; its cause names the signal. By the time
// that a signal has ended it, signals have their usual effect again, so that the next one
// ends the process at once. (signal.NotifyContext catches them until its stop is called,
// and so ignores one that comes before the program calls it.) One that comes
// while the first is being handled, as from a parent that passes on what the terminal has
// sent to both, counts as the same.
//
// stop gives signals their effect back and ends the context, like any CancelFunc.
func Context(parent context.Context, signals ...os.Signal) (ctx context.Context, stop context.CancelFunc) {
	if len(signals) == 0 {
		signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	ctx, cancel := context.WithCancelCause(parent)
	caught, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(caught, signals...)
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case got := <-caught:
			signal.Stop(caught) // first
			cancel(fmt.Errorf("%v signal received", got))
		case <-over:
			signal.Stop(caught)
		}
	})
	return ctx, sync.OnceFunc(func() {
		close(over)
		watch.Wait()
		cancel(nil)
	})
}
