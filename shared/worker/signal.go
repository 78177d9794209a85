package worker

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// RunUntilSignal is Run until one of the signals comes: os.Interrupt and SIGTERM
// where none is named. The first one begins the stop, as ctx's end does. From
// then on signals have their usual effect again, so a second one ends the process
// at once; its jobs are run elsewhere when its leases have expired. Until it returns, a write to a standard output or
// error whose reader has gone fails, and does not end the process by SIGPIPE.
func (w *Worker) RunUntilSignal(ctx context.Context, signals ...os.Signal) error {
	end := outlivePipes()
	defer end()
	ctx, stop := interrupt.Context(ctx, signals...)
	defer stop()
	return w.Run(ctx)
}

// outlivePipes keeps the process alive when what reads its standard output or error has gone, until end is called. A log
// line would otherwise end it by SIGPIPE, with jobs running; now the write fails. The signal is caught and not ignored,
// since what the process starts would inherit that.
func outlivePipes() (end func()) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGPIPE)
	return func() { signal.Stop(caught) }
}
