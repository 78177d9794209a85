package explain

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/drain"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/wait"
)

const (
	// drainEvery is how often a core that starts jobs tells the others how many.
	drainEvery = 2 * time.Second
	// drainAskedFor is for how long a core that starts none reads what the others tell.
	drainAskedFor = 30 * time.Second
)

// Explainer says why jobs wait, and for how long.
type Explainer struct {
	store  *cell.Cell
	cached *cache.Memory
	// rates are how fast lines move, turns when callers that a full cap refused may come back.
	rates *drain.Rates
	turns drain.ReturnTimes
	lists *scheduler.ReadyLists
	// waits are how long new jobs are likely to wait.
	waits waits
	// asked is when a rate was last asked for, in Unix nanoseconds.
	asked atomic.Int64
	// core names this core among the others.
	core uuid.UUID
	log  *slog.Logger
}

// New makes an Explainer; Run keeps its rates up to date.
func New(store *cell.Cell, cached *cache.Memory, lists *scheduler.ReadyLists, log *slog.Logger) *Explainer {
	return &Explainer{store: store, cached: cached, rates: drain.NewRates(), lists: lists, core: uuid.New(), log: log}
}

// Started counts leased jobs in the rates of their lines.
func (e *Explainer) Started(jobs []claim.Job) {
	starts := make([]drain.Start, len(jobs))
	for i := range jobs {
		job := &jobs[i]
		starts[i] = drain.Start{
			Lane: job.LaneID, Queue: tenant.QueueKey{Tenant: job.TenantID, Name: job.Queue}, Waited: job.StartedAt.Sub(job.ReadyAt),
		}
		if user := store.OrElse(job.UserID, ""); user != "" && e.cached.Limits.For(job.TenantID, user).UserMaxActive != nil {
			starts[i].User = user
		}
	}
	e.rates.Started(time.Now(), starts, e.lists.AnyReady)
}

// Run tells the other cores how many jobs start here, and reads how many start there, for as long as any do. In a
// core that starts none it reads for as long as that is asked for.
func (e *Explainer) Run(ctx context.Context) {
	reported := false
	for wait.For(ctx, pace.Jittered(drainEvery)) == nil {
		report := e.rates.Report(time.Now())
		if report.Empty() && !reported {
			if time.Since(time.Unix(0, e.asked.Load())) < drainAskedFor {
				e.hear(ctx)
			}
			continue
		}
		others, err := e.store.Drain.ReportDrain(ctx, e.core, report)
		if err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "how fast lines move is not told to other cores", "error", err)
		}
		if err == nil {
			e.rates.Heard(time.Now(), others, e.cached.Lanes.ByID)
			reported = !report.Empty()
		}
	}
}

// hear reads what other cores report, in a core that has started no jobs lately.
func (e *Explainer) hear(ctx context.Context) {
	if !e.rates.Due(time.Now()) {
		return
	}
	others, err := e.store.Drain.DrainReports(ctx, e.core)
	if err != nil {
		if ctx.Err() == nil {
			e.log.WarnContext(ctx, "how fast lines move in other cores is not known", "error", err)
		}
		return
	}
	e.rates.Heard(time.Now(), others, e.cached.Lanes.ByID)
}

// RetryAfter says when a caller that was refused for a full cap is likely to find room: each gets a time of its own, at the
// pace at which jobs end. In a steady drain as many end as start.
func (e *Explainer) RetryAfter(key caps.CountKey) (time.Duration, bool) {
	now := time.Now()
	e.asked.Store(now.UnixNano())
	var ends float64
	switch key.Counter { //nolint:exhaustive // a submit is refused for these
	case caps.ActiveTenant:
		ends = e.rates.OfTenant(now, key.Tenant)
	case caps.ActiveUser:
		ends = e.rates.OfUser(now, drain.UserKey{Tenant: key.Tenant, User: key.Name})
	case caps.ActiveQueue:
		if settings := e.cached.Lanes.Settings(key.Tenant, key.Name); !e.cached.HeldBack(&settings) {
			ends = e.rates.OfQueue(now, settings.QueueKey)
		}
	}
	if ends <= 0 {
		return 0, false
	}
	// each core hands out its part of the places
	return e.turns.Next(now, key, ends/float64(e.rates.Cores(now)), rand.Float64()), true //nolint:gosec // spreads load, guards nothing
}
