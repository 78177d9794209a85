package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	sdk "github.com/forgequeue/forgequeue/shared/worker"
)

// Two workers with a handler each on one queue: every job reaches its handler at the first attempt,
// and none is put back.
func TestTwoWorkersOfDifferentTypes(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	const each = 10
	var jobs []api.SubmitRequest
	for i := range each {
		for _, jobType := range []string{"resize", "mail"} {
			jobs = append(jobs, api.SubmitRequest{Type: jobType, Queue: "shared", DedupeKey: new(fmt.Sprint(jobType, i))})
		}
	}
	submitted, err := c.SubmitBatch(t.Context(), api.BatchRequest{Jobs: jobs})
	if err != nil || submitted.Accepted != 2*each {
		t.Fatal(submitted, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	begun := time.Now()
	for _, jobType := range []string{"resize", "mail"} {
		w, err := sdk.New(sdk.Options{Client: c, Queues: []string{"shared"}, Concurrency: 2, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		sdk.Handle(w, jobType, func(_ context.Context, job *sdk.Job[any]) (string, error) { return job.Type, nil })
		workers.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	for _, result := range submitted.Results {
		job, err := c.Wait(t.Context(), result.Job.ID)
		if err != nil || job.State != api.StateCompleted || string(job.Result) != `"`+job.Type+`"` {
			t.Errorf("%+v: %v", job, err)
		}
		if job.Epoch != 1 {
			t.Errorf("a job of the type %s took %d leases", job.Type, job.Epoch)
		}
	}
	t.Logf("%d jobs in %v", 2*each, time.Since(begun))
	stop()
	workers.Wait()
}
