package sweep

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// gatePoll finds the checks that another core appended, which died before it worked them off.
	gatePoll = longNet
	// minGateSleep bounds how often the checks of rates are looked for.
	minGateSleep = 5 * time.Millisecond
	// gateSweepPeriod, while there are more keys, and gateSweepKeys bound the search for keys whose jobs wait for nothing.
	gateSweepPeriod = 5 * time.Second
	gateSweepKeys   = 500
	// signalForgetPeriod and signalForgetJobs bound the search for signals of ended jobs.
	signalForgetPeriod = time.Minute
	signalForgetJobs   = 1000
	// budgetForgetPeriod is how often unused accounts of budgets are looked for.
	budgetForgetPeriod = time.Hour
)

// Gates lets jobs with a key pass the gate of it, right after the commit that brought them there or made room.
func (d Duties) Gates() *Duty {
	all := d.inRounds("gates", gatePoll, rounds{tenants: d.store.Gates.WaitingTenants, step: func(ctx context.Context, owner tenant.ID) (bool, error) {
		passed, worked, err := d.store.Gates.Pass(caps.WithLockWait(ctx, followLockWait), owner)
		if err != nil {
			return false, err
		}
		ready := make([]jobs.Ready, len(passed))
		for i, one := range passed {
			ready[i] = jobs.Ready{Lane: one.Lane, Priority: one.Priority, At: one.At, ID: one.ID}
		}
		d.metrics.PastGates.Add(float64(len(passed)))
		d.engine.Publisher.Wake(ready)
		return worked, nil
	}})
	// a rate lets the next job pass at a time that is known
	return d.kicked(all.kicks, "gates", func(ctx context.Context) (time.Duration, error) {
		sleep, err := all.RunOnce(ctx)
		next, waits, nextErr := d.store.Gates.NextDue(ctx)
		if waits && nextErr == nil {
			sleep = min(sleep, max(next, minGateSleep))
		}
		return sleep, errors.Join(err, nextErr)
	})
}

// GateSweep checks all keys with jobs at their gates, some at a time. It is the net for changes of settings. Each longNet it
// also settles what is left of rates and budgets.
func (d Duties) GateSweep() *Duty {
	var place gate.Key
	var settled time.Time
	return d.duty("gates", func(ctx context.Context) (_ time.Duration, err error) {
		place, err = d.store.Gates.Sweep(ctx, place, gateSweepKeys)
		sleep := jittered(longNet, 0.1)
		if place != (gate.Key{}) || err != nil {
			sleep = jittered(gateSweepPeriod, 0.1)
		}
		if time.Since(settled) < longNet-gateSweepPeriod/2 {
			return sleep, err
		}
		settled = time.Now()
		const keys = 2 * gateSweepKeys
		return sleep, errors.Join(err, d.store.Gates.ForgetRates(ctx, keys), d.store.Gates.SweepLines(ctx, keys), d.store.Budgets.Fold(ctx, keys))
	})
}

// SignalForget forgets what ended jobs were told from outside, some at a time.
func (d Duties) SignalForget() *Duty {
	var place uuid.UUID
	return d.every(signalForgetPeriod, "signals", func(ctx context.Context) (err error) {
		place, err = d.store.Jobs.ForgetSignals(ctx, place, signalForgetJobs)
		return err
	})
}

// BudgetForget forgets what users and keys used of budgets long ago.
func (d Duties) BudgetForget() *Duty {
	return d.every(budgetForgetPeriod, "gates", func(ctx context.Context) error { return d.store.Budgets.Forget(ctx, gateSweepKeys) })
}
