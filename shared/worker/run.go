package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
	"github.com/forgequeue/forgequeue/shared/worker/internal/outcomes"
)

const (
	// returnGrace is how long handlers have to return once their contexts were
	// cancelled for the worker's stop.
	returnGrace = 2 * time.Second
	// lastWord is how long a stop waits for outcomes and releases to be sent.
	lastWord = 5 * time.Second
	// goodbye is how long a stop tries to deregister the worker. With
	// the default grace a stop takes 29 s at most.
	goodbye = 2 * time.Second
)

// run is the state of one Run of a worker.
type run struct {
	worker   *Worker
	handlers map[string]HandlerFunc
	leases   *leases
	outbox   *outcomes.Outbox
	room     *room
	// attempts are the goroutines of claimed jobs, outcome and log line included.
	attempts sync.WaitGroup
	// base carries Run's values but not its end: attempts outlive it by the grace.
	base context.Context //nolint:containedctx // its life is the run's
	// abandon is closed when the stop no longer waits for handlers.
	abandon chan struct{}
}

// Run registers the worker, then claims and runs jobs until ctx ends. It then
// claims no more, lets handlers go on for the grace, cancels their contexts,
// releases what is left, deregisters the worker, and returns nil. A key that is refused (401, 403) ends
// Run in the same way, with the error; so do handlers that were given wrongly.
// All other failures are retried. Run may be called once.
//
// Only a handler that ignores its cancelled context is still running when Run
// returns; its lease has been released, and what it returns is not sent.
func (w *Worker) Run(ctx context.Context) error {
	handlers, err := w.start()
	if err != nil {
		return err
	}
	base, cancelOutcomes := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelOutcomes()
	r := &run{
		worker: w, handlers: handlers, leases: newLeases(), outbox: outcomes.NewOutbox(w.client, w.logger),
		room: newRoom(w.concurrency), base: base, abandon: make(chan struct{}),
	}
	if err := r.register(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		r.leave()
		return nil
	}
	serving, stopServing := context.WithCancel(base)
	var loops sync.WaitGroup
	loops.Go(func() { r.heartbeats(serving) })
	loops.Go(func() { r.outbox.Run(serving) })

	w.logger.Info("worker started", "queues", w.queues, "tags", w.tags, "concurrency", w.concurrency)
	err = r.claimLoop(ctx)
	r.room.stop()
	w.logger.Info("worker stopping", "cause", stopCause(ctx, err), "leases", len(r.leases.all()), "grace_ms", max(w.grace, 0).Milliseconds())
	r.drain(cancelOutcomes)
	stopServing()
	loops.Wait()
	if err == nil { // otherwise the key is refused, for this too
		r.leave()
	}
	w.logger.Info("worker stopped")
	return err
}

// leave tells the server that the worker has left: it is no longer listed, and what it
// still holds goes back at once. Nothing else must be under way: a claim or a heartbeat
// would make the worker known again. Without an answer it turns STALE and DEAD.
func (r *run) leave() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.base), goodbye) // the drain may have ended it
	defer cancel()
	if err := r.worker.client.RemoveWorker(ctx, r.worker.id); err != nil {
		r.worker.logger.Warn("deregistering failed", "error", err.Error())
	}
}

// start checks the handlers, and allows no more of them.
func (w *Worker) start() (map[string]HandlerFunc, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started {
		return nil, errors.New("worker: Run was called before")
	}
	if len(w.faults) == 0 && len(w.handlers) == 0 {
		return nil, errors.New("worker: there is no handler; give one with Handle")
	}
	if err := errors.Join(w.faults...); err != nil {
		return nil, err
	}
	w.started = true
	return w.wrapped(), nil
}

// register registers the worker, and retries while the server is down. Its error is
// final; nil also when ctx ended.
func (r *run) register(ctx context.Context) error {
	for failures := 0; ; failures++ {
		_, err := r.worker.client.Register(ctx, r.worker.registration())
		if err == nil || ctx.Err() != nil {
			return nil //nolint:nilerr // ctx has ended, and the call with it
		}
		if refused(err) {
			return fmt.Errorf("worker: register: %w", err)
		}
		r.worker.logger.Warn("register failed", "error", err.Error(), "failures", failures+1)
		if wait.For(ctx, backoff.Asked(failures, claimRetryLast, err)) != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// refused says that the key is not valid, or may not do this; a retry would not
// help.
func refused(err error) bool {
	status := client.Status(err)
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// stopCause is why the worker stops: its own error, or what ended ctx.
func stopCause(ctx context.Context, err error) string {
	if err == nil {
		err = context.Cause(ctx)
	}
	return err.Error()
}

// drain waits for the attempts: it cancels them after the grace, then abandons their
// handlers, then stops sending outcomes.
func (r *run) drain(cancelOutcomes context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		r.attempts.Wait()
		close(done)
	}()
	if endsWithin(done, r.worker.grace) {
		return
	}
	r.leases.cancelAll(ErrStopping)
	if endsWithin(done, returnGrace) {
		return
	}
	close(r.abandon)
	if endsWithin(done, lastWord) {
		return
	}
	cancelOutcomes()
	<-done
}

func endsWithin(done <-chan struct{}, d time.Duration) bool {
	select {
	case <-done:
		return true
	case <-time.After(d):
		return false
	}
}
