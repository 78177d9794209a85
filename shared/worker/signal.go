package worker

import (
	"context"
	"os"

	"github.com/forgequeue/forgequeue/shared/interrupt"
)

// RunUntilSignal is Run until one of the signals comes: os.Interrupt and SIGTERM
// where none is named. The first one begins the stop, as ctx's end does. From
// then on signals have their usual effect again, so a second one ends the process
// at once; its jobs are run elsewhere when its leases have expired.
func (w *Worker) RunUntilSignal(ctx context.Context, signals ...os.Signal) error {
	ctx, stop := interrupt.Context(ctx, signals...)
	defer stop()
	return w.Run(ctx)
}
