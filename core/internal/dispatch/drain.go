package dispatch

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/drain"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// drainEvery is how often a core that starts jobs tells the others how many.
	drainEvery = 2 * time.Second
	// drainAskedFor is for how long a core that starts none reads what the others tell.
	drainAskedFor = 30 * time.Second
)

// drained counts leased jobs in the rates of their lines.
func (d *Dispatcher) drained(jobs []claim.Job) {
	if len(jobs) == 0 {
		return
	}
	starts := make([]drain.Start, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		starts[i] = drain.Start{
			Lane: job.LaneID, Queue: tenant.QueueKey{Tenant: job.TenantID, Name: job.Queue}, Waited: job.StartedAt.Sub(job.ReadyAt),
		}
		if user := null.Or(job.UserID, ""); user != "" && d.limits.For(job.TenantID, user).UserMaxActive != nil {
			starts[i].User = user
		}
	}
	d.drains.Started(time.Now(), starts, d.lists.AnyReady)
}

// reportDrain tells the other cores how many jobs start here, and reads how many start there, for as long as any do. In a
// core that starts none it reads for as long as that is asked for.
func (d *Dispatcher) reportDrain(ctx context.Context) {
	reported := false
	for wait.For(ctx, jittered(drainEvery)) == nil {
		report := d.drains.Report(time.Now())
		if report.Empty() && !reported {
			if time.Since(time.Unix(0, d.drainAsked.Load())) < drainAskedFor {
				d.hearDrain(ctx)
			}
			continue
		}
		others, err := d.store.Drain.ReportDrain(ctx, d.core, report)
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "how fast lines move is not told to other cores", "error", err)
		}
		if err == nil {
			d.drains.Heard(time.Now(), others, d.lanes.ByID)
			reported = !report.Empty()
		}
	}
}

// hearDrain reads what other cores report, in a core that has started no jobs lately.
func (d *Dispatcher) hearDrain(ctx context.Context) {
	if !d.drains.Due(time.Now()) {
		return
	}
	others, err := d.store.Drain.DrainReports(ctx, d.core)
	if err != nil {
		if ctx.Err() == nil {
			d.log.WarnContext(ctx, "how fast lines move in other cores is not known", "error", err)
		}
		return
	}
	d.drains.Heard(time.Now(), others, d.lanes.ByID)
}

// room says when a caller that was refused for a full cap is likely to find room: each gets a time of its own, at the
// pace at which jobs end. In a steady drain as many end as start.
func (d *Dispatcher) room(key caps.CountKey) (time.Duration, bool) {
	now := time.Now()
	d.drainAsked.Store(now.UnixNano())
	var ends float64
	switch key.Counter { //nolint:exhaustive // a submit is refused for these
	case caps.ActiveTenant:
		ends = d.drains.OfTenant(now, key.Tenant)
	case caps.ActiveUser:
		ends = d.drains.OfUser(now, drain.UserKey{Tenant: key.Tenant, User: key.Name})
	case caps.ActiveQueue:
		if settings := d.lanes.Settings(key.Tenant, key.Name); !d.heldBack(&settings) {
			ends = d.drains.OfQueue(now, settings.QueueKey)
		}
	}
	if ends <= 0 {
		return 0, false
	}
	// each core hands out its part of the places
	return d.turns.Next(now, key, ends/float64(d.drains.Cores(now)), rand.Float64()), true //nolint:gosec // spreads load, guards nothing
}
