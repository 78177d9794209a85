//go:build unix

package up

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/sample"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// startDemo runs the sample worker, and on a fresh server submits its first jobs: real work on the project's own
// documents, over HTTP through the gateway as any client's.
func startDemo(group *runGroup, r ready, fresh bool, log *slog.Logger) error {
	caller, err := client.New(client.Options{URL: r.Gateway, APIKey: r.APIKey})
	if err != nil {
		return err
	}
	w, err := worker.New(worker.Options{
		Client: caller, WorkerID: "sample", Concurrency: 4, Logger: log.With("service", "sample-worker"), Grace: grace,
	})
	if err != nil {
		return err
	}
	sample.Register(w)
	group.start("sample worker", func(ctx context.Context) error {
		defer caller.CloseIdleConnections()
		return w.Run(ctx)
	})
	if !fresh {
		return nil
	}
	start, err := os.Getwd()
	if err != nil {
		start = "/"
	}
	documents, err := sample.Documents(start)
	if err != nil {
		return fmt.Errorf("the sample documents cannot be read: %w", err)
	}
	if _, err := caller.SubmitBatch(group.ctx, api.BatchRequest{Jobs: sample.DemoJobs(documents)}); err != nil {
		return fmt.Errorf("the first jobs cannot be submitted: %w", err)
	}
	return nil
}
