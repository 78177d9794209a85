package push

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Causes of calls cancelled by core.
var (
	errLeaseLost = errors.New("push: the lease is lost")
	errLeaseEnds = errors.New("push: the lease could not be extended")
	errCancelled = errors.New("push: the job is cancelled")
)

const (
	// longestBeat is the longest time between two heartbeats: the delay of a job's cancel.
	longestBeat = 3 * time.Second
	// beatPause is the pause after a failed heartbeat.
	beatPause = 500 * time.Millisecond
)

// renew extends a job's lease until ctx ends, and cancels the call when the lease is lost, is about
// to end, or the job is cancelled.
func (e *Executor) renew(ctx context.Context, cancel context.CancelCauseFunc, claimed *claim.Job, received time.Time) {
	// Both times are of the statement that leased it; the margin covers the time since.
	renewed, length := received, claimed.LeaseExpiresAt.Sub(claimed.StartedAt)
	next := min(length/3, longestBeat)
	for {
		end := renewed.Add(length - min(length/20, 500*time.Millisecond))
		timer := time.NewTimer(min(next, time.Until(end)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if !time.Now().Before(end) {
			cancel(errLeaseEnds)
			return
		}
		asked := time.Now()
		status, err := e.beat(ctx, claimed.Lease(), end)
		switch {
		case err != nil: // the database is unavailable: the lease is still valid
			next = beatPause
		case status.Status == api.LeaseLost:
			cancel(errLeaseLost)
			return
		case status.Status == api.LeaseCancel:
			cancel(errCancelled)
			return
		default:
			renewed, length = asked, time.Duration(*status.LeaseMS)*time.Millisecond
			next = min(length/3, longestBeat)
		}
	}
}

func (e *Executor) beat(ctx context.Context, lease job.Lease, end time.Time) (api.LeaseStatus, error) {
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	statuses, err := e.engine.Claims.Heartbeat(within, []jobs.Report{{Lease: lease}})
	if err != nil {
		return api.LeaseStatus{}, err
	}
	return statuses[0], nil
}
