package sweep

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// followPoll finds the follow-ups that another core appended, which died before it worked them off.
	followPoll = longNet
	// followLockWait bounds the wait for a job that another transaction has locked: other tenants wait too.
	followLockWait = 500 * time.Millisecond
	// followAgePeriod is how often the age of the oldest follow-up is measured.
	followAgePeriod = 30 * time.Second
)

// FollowUps works off what the ends of jobs ask for: it unblocks or cancels the jobs that come after
// them. It begins right after the commit that ended a job.
func (d Duties) FollowUps() *Duty { return d.inRounds("follow_up", followPoll, d.followUpRounds()) }

func (d Duties) followUpRounds() rounds {
	return rounds{tenants: d.store.Dependencies.WaitingTenants, step: func(ctx context.Context, owner tenant.ID) (bool, error) {
		followed, err := d.store.Jobs.FollowUp(caps.WithLockWait(ctx, followLockWait), owner)
		if err != nil {
			return false, err
		}
		d.engine.Publisher.Publish(ctx, publish.Changes{Jobs: followed.Changes})
		return followed.Done > 0 || followed.More, nil
	}}
}

// FollowUpAge measures how late follow-ups are.
func (d Duties) FollowUpAge() *Duty {
	return d.every(followAgePeriod, "follow_up", func(ctx context.Context) error {
		age, err := d.store.Dependencies.OldestFollowUp(ctx)
		if err == nil {
			d.metrics.FollowUpAge.Set(age.Seconds())
		}
		return err
	})
}
