package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
)

const (
	// claimRetryLast is the longest wait between claims that fail, unless the server
	// asks for more.
	claimRetryLast = 10 * time.Second
	// After an empty answer in less than this, for which the server did not wait as
	// asked, the next claim is delayed like after a failure.
	emptyTooSoon = 100 * time.Millisecond
)

// claimLoop claims as many jobs as there is room for until ctx ends. Its error is a
// refused key.
func (r *run) claimLoop(ctx context.Context) error {
	failures, hasty := 0, 0
	for {
		most := r.room.wait(ctx)
		if most == 0 {
			return nil
		}
		asked := time.Now()
		jobs, err := r.claim(ctx, most)
		if ctx.Err() != nil {
			r.giveBack(jobs)
			return nil //nolint:nilerr // ctx has ended, and the claim with it
		}
		r.room.claimed(most, len(jobs))
		r.begin(jobs, most)
		pause := time.Duration(0)
		switch {
		case err != nil && refused(err):
			return fmt.Errorf("worker: claim: %w", err)
		case err != nil:
			failures++
			r.worker.logger.Warn("claim failed", "error", err.Error(), "failures", failures)
			pause = backoff.Asked(failures-1, claimRetryLast, err)
		case len(jobs) == 0 && time.Since(asked) < min(emptyTooSoon, r.worker.wait/2):
			failures = 0
			pause = backoff.After(hasty, backoff.First, claimRetryLast)
			hasty++
		default:
			failures, hasty = 0, 0
		}
		if wait.For(ctx, pause) != nil {
			return nil //nolint:nilerr // ctx has ended
		}
	}
}

// claim claims at most so many jobs. Cancelling ctx closes the connection, and then
// the server takes back jobs that it was about to send.
func (r *run) claim(ctx context.Context, most int) ([]api.ClaimedJob, error) {
	waitMS := r.worker.wait.Milliseconds()
	answer, err := r.worker.client.Claim(ctx, api.ClaimRequest{
		WorkerID: r.worker.id, Queues: r.worker.queues, Types: typesOf(r.handlers), Tags: &r.worker.tags, Max: &most, WaitMS: &waitMS,
	})
	return answer.Jobs, err
}
