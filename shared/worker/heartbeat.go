package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/worker/internal/backoff"
)

// After a heartbeat that failed the next follows sooner, by this backoff.
const (
	beatRetryFirst = 250 * time.Millisecond
	beatRetryLast  = 5 * time.Second
)

// heartbeats keeps all leases, and the worker itself, alive until ctx ends.
func (r *run) heartbeats(ctx context.Context) {
	last, failures := time.Now(), 0
	var retry time.Time // when to try again after a failure
	for {
		whole := r.leases.due(last)
		due := r.leases.reportDue(whole)
		if failures > 0 {
			due = r.leases.nextEnd(retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.leases.changed:
			continue
		case <-time.After(time.Until(due)):
		}
		if failures > 0 {
			r.loseOverdue()
			if time.Now().Before(retry) {
				continue // it was a lease's end that was due
			}
		}
		var reporting []*lease // these only, where no whole heartbeat is due
		if now := time.Now(); failures == 0 && now.Before(whole) {
			if reporting = r.leases.reporting(now); len(reporting) == 0 {
				continue // its attempt has ended
			}
		}
		err := r.beat(ctx, reporting)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			last, failures = time.Now(), 0
			continue
		}
		r.worker.logger.Warn("heartbeat failed", "error", err.Error(), "failures", failures+1)
		r.loseOverdue()
		// Several tries must fit into the rest of the shortest lease.
		retry = time.Now().Add(min(backoff.After(failures, beatRetryFirst, beatRetryLast), r.leases.shortest()/6))
		failures++
	}
}

// beat sends one heartbeat for all leases, or for those that are named. A worker that the server does not know,
// or has marked DEAD, registers again and repeats the heartbeat: its answer has the
// leases that were lost.
func (r *run) beat(ctx context.Context, only []*lease) error {
	// One that hangs must leave time for others, and must end before a lease does.
	longest := time.Now().Add(max(r.leases.shortest()/3, shortestLease))
	ctx, cancel := context.WithDeadline(ctx, r.leases.nextEnd(longest))
	defer cancel()
	err := r.beatOnce(ctx, only)
	if p, ok := problem.From(err); !ok || p.Code != problem.WorkerUnknown {
		return err
	}
	r.worker.logger.Warn("the server does not know this worker; registering again")
	if _, err := r.worker.client.Register(ctx, r.worker.registration()); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	return r.beatOnce(ctx, nil)
}

func (r *run) beatOnce(ctx context.Context, held []*lease) error {
	if len(held) == 0 {
		held = r.leases.all()
	}
	if len(held) == 0 {
		_, err := r.worker.client.Heartbeat(ctx, r.worker.id, nil)
		return err
	}
	for chunk := range slices.Chunk(held, api.MaxLeases) {
		if err := r.beatFor(ctx, chunk); err != nil {
			return err
		}
	}
	return nil
}

// beatFor extends leases and sends their reports, except of one whose last report is under way: that is the newer one.
func (r *run) beatFor(ctx context.Context, held []*lease) error {
	free := make([]bool, len(held))
	for i, l := range held {
		if free[i] = l.sending.TryLock(); free[i] {
			defer l.sending.Unlock() //nolint:revive,gocritic // all are held until the answer is here
		}
	}
	return r.extend(ctx, held, free)
}

// extend extends leases and sends the reports of those that are free to.
func (r *run) extend(ctx context.Context, held []*lease, free []bool) error {
	request := make([]api.Lease, len(held))
	taken, bytes := make([]int, len(held)), 0
	for i, l := range held {
		request[i] = api.Lease{JobID: l.job.ID, LeaseToken: l.job.LeaseToken}
		if bytes < reportBytes && free[i] { // the others report with the next one
			taken[i] = l.reports.take(&request[i])
			bytes += len(request[i].Checkpoint)
		}
	}
	// The server extends the leases after this: counted from the answer's arrival they would last too long here.
	asked := time.Now()
	answer, err := r.worker.client.Heartbeat(ctx, r.worker.id, request)
	refused := rejectsContent(client.Status(err)) && slices.ContainsFunc(request, func(l api.Lease) bool { return l.Progress != nil || l.Checkpoint != nil })
	if err == nil || refused {
		for i, l := range held {
			l.reports.sent(taken[i])
		}
	}
	if refused {
		// What one handler reports must not cost all leases: without reports the request is one that always was fit.
		r.worker.logger.Error("the server refused what handlers reported; it is dropped", "error", err.Error())
		for i := range request {
			request[i].Progress, request[i].Checkpoint = nil, nil
		}
		asked = time.Now()
		answer, err = r.worker.client.Heartbeat(ctx, r.worker.id, request)
	}
	if err != nil {
		return err
	}
	if len(answer.Leases) != len(held) {
		return errors.New("the heartbeat's answer does not tell of every lease sent")
	}
	for i, l := range held {
		if answer.Leases[i].JobID != l.job.ID {
			return errors.New("the heartbeat's answer is not in the order sent")
		}
		r.leases.renew(l, answer.Leases[i], asked)
	}
	return nil
}

// loseOverdue gives up the leases whose length has passed while heartbeats fail: the
// job may run elsewhere.
func (r *run) loseOverdue() {
	now := time.Now()
	for _, l := range r.leases.all() {
		if !now.Before(r.leases.end(l)) {
			l.cancel(ErrLeaseLost)
		}
	}
}
