package worker

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// RunUntilSignal is Run until one of the signals comes: os.Interrupt and SIGTERM
// where none is named. The first one begins the stop, as ctx's end does. From
// then on signals have their usual effect again, so a second one ends the process
// at once; what it held is run elsewhere when its leases are over.
func (w *Worker) RunUntilSignal(ctx context.Context, signals ...os.Signal) error {
	if len(signals) == 0 {
		signals = []os.Signal{os.Interrupt, syscall.SIGTERM}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	caught, over := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(caught, signals...)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case got := <-caught:
			// Before the stop begins, or a quick second signal would be swallowed.
			signal.Stop(caught)
			cancel(fmt.Errorf("signal: %v", got))
		case <-over:
			signal.Stop(caught)
		}
	}()
	err := w.Run(ctx)
	close(over)
	<-watched
	return err
}
