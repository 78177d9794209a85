package sweep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// stepsAtOnce is how many tenants have their step at the same time.
	stepsAtOnce = 4
	// maxRounds bounds one run; the next begins at once.
	maxRounds = 200
)

// rounds is work of many tenants. Each tenant has one step in a round, however much work it has left.
type rounds struct {
	// tenants lists the tenants that have work.
	tenants func(context.Context) ([]tenant.ID, error)
	// step does a bounded part of a tenant's work. worked says that there was some, which no other core had locked.
	step func(context.Context, tenant.ID) (worked bool, err error)
}

// inRounds makes a duty that makes rounds until no step works.
func (d Duties) inRounds(name string, poll time.Duration, r rounds) *Duty {
	return d.duty(name, func(ctx context.Context) (time.Duration, error) {
		var problems []error
		failed := map[tenant.ID]bool{}
		for range maxRounds {
			worked, err := r.round(ctx, failed)
			problems = append(problems, err)
			if !worked || ctx.Err() != nil {
				return poll, errors.Join(problems...)
			}
		}
		return 0, errors.Join(problems...)
	})
}

// round makes one step for each tenant, and says whether any worked. It leaves out the tenants whose step has
// failed, and adds to them: the next run tries them again.
func (r rounds) round(ctx context.Context, failed map[tenant.ID]bool) (worked bool, err error) {
	tenants, err := r.tenants(ctx)
	if err != nil {
		return false, err
	}
	var mu sync.Mutex
	var problems []error
	var group sync.WaitGroup
	running := make(chan struct{}, stepsAtOnce)
	// failed is read before the steps begin, which write to it.
	for _, owner := range slices.DeleteFunc(tenants, func(owner tenant.ID) bool { return failed[owner] }) {
		running <- struct{}{}
		group.Go(func() {
			defer func() { <-running }()
			did, err := r.step(ctx, owner)
			mu.Lock()
			defer mu.Unlock()
			worked = worked || did
			if err != nil {
				failed[owner] = true
				problems = append(problems, err)
			}
		})
	}
	group.Wait()
	return worked, errors.Join(problems...)
}
