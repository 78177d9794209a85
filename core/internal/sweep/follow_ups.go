package sweep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

const (
	// followPoll finds the follow-ups that another core appended and did not work off.
	followPoll = 5 * time.Second
	// followAtOnce is how many tenants' follow-ups are worked off at the same time.
	followAtOnce = 4
	// followRounds bounds one run; the next begins at once.
	followRounds = 200
	// followLockWait bounds the wait for a job that another transaction has locked: other tenants wait too.
	followLockWait = 500 * time.Millisecond
	// followAgePeriod is how often the age of the oldest follow-up is measured.
	followAgePeriod = 30 * time.Second
)

// FollowUps works off what the ends of jobs ask for: it unblocks or cancels the jobs that come after
// them. It begins right after the commit that ended a job.
type FollowUps struct {
	store      *cell.Cell
	dispatcher *dispatch.Dispatcher
	kicked
}

// NewFollowUps makes the duty.
func NewFollowUps(store *cell.Cell, d *dispatch.Dispatcher, m *metrics.Jobs, log *slog.Logger) *FollowUps {
	return &FollowUps{store: store, dispatcher: d, kicked: newKicked("follow_up", m, log)}
}

// Run works off follow-ups until ctx ends.
func (f *FollowUps) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { every(ctx, followAgePeriod, "follow_up", f.metrics, f.log, f.measure) })
	f.run(ctx, func(ctx context.Context) (time.Duration, error) { return followPoll, f.RunOnce(ctx) })
	group.Wait()
	return nil
}

// RunOnce works off the follow-ups of all tenants, in rounds: each has one step in a round, however
// many it has left.
func (f *FollowUps) RunOnce(ctx context.Context) error {
	var problems []error
	failed := map[tenant.ID]bool{}
	for range followRounds {
		worked, err := f.Round(ctx, failed)
		if err != nil {
			problems = append(problems, err)
		}
		if !worked || ctx.Err() != nil { // there are none, or other cores have locked them
			return errors.Join(problems...)
		}
	}
	f.Kick()
	return errors.Join(problems...)
}

// Round makes one step for each tenant that has follow-ups, and says whether any was of use. It leaves out
// the tenants whose step has failed, and adds to them: the next run tries them again.
func (f *FollowUps) Round(ctx context.Context, failed map[tenant.ID]bool) (worked bool, err error) {
	ctx = usage.WithLockWait(ctx, followLockWait)
	tenants, err := f.store.WaitingTenants(ctx)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var problems []error
	var group sync.WaitGroup
	places := make(chan struct{}, followAtOnce)
	for _, owner := range slices.DeleteFunc(tenants, func(owner tenant.ID) bool { return failed[owner] }) {
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			done, more, err := f.dispatcher.FollowUp(ctx, owner)
			mu.Lock()
			defer mu.Unlock()
			worked = worked || done > 0 || more
			if err != nil {
				failed[owner] = true
				problems = append(problems, err)
			}
		})
	}
	group.Wait()
	return worked, errors.Join(problems...)
}

// measure sets the metric of how late follow-ups are.
func (f *FollowUps) measure(ctx context.Context) error {
	age, err := f.store.OldestFollowUp(ctx)
	if err == nil {
		f.metrics.FollowUpAge.Set(age.Seconds())
	}
	return err
}
