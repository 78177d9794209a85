package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
	"github.com/forgequeue/forgequeue/shared/worker"
)

func runWorker(ctx context.Context, r *run) error {
	if r.core != "" {
		return errors.New("--core: a worker calls the public API; leave it out")
	}
	queued, err := r.fill(ctx, r.jobs, r.callers)
	if err != nil {
		return err
	}
	done := &r.rec.finished
	ctx, stop := context.WithTimeout(ctx, r.duration)
	defer stop()
	w, err := r.newWorker(func(ctx context.Context, _ *worker.RawJob) (json.RawMessage, error) {
		defer func() {
			if done.Add(1) == queued {
				stop()
			}
		}()
		return nil, wait.For(ctx, r.work)
	})
	if err != nil {
		return err
	}
	r.doing("working", queued, done.Load)
	begun := time.Now()
	if err := w.Run(ctx); err != nil { // it returns when the last outcome is answered
		return fmt.Errorf("the worker: %w", err)
	}
	r.report.Seconds, r.report.Jobs = time.Since(begun).Seconds(), done.Load()
	return nil
}

// newWorker makes a worker of the Go SDK for the run's queue.
func (r *run) newWorker(handler worker.HandlerFunc) (*worker.Worker, error) {
	c, err := client.New(client.Options{URL: r.url, APIKey: r.consumer.APIKey()})
	if err != nil {
		return nil, err
	}
	w, err := worker.New(worker.Options{
		Client: c, WorkerID: r.id, Queues: []string{r.queue}, Concurrency: r.concurrency, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	w.HandleAny(handler)
	return w, nil
}
