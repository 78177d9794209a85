package explain

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/pace"
	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// reportEvery is how often a core that starts jobs tells the others how many.
const reportEvery = 2 * time.Second

// Explainer says why jobs wait, and for how long.
type Explainer struct {
	store  *cell.Cell
	cached *cache.Memory
	// rates are how fast lines move, returns when callers that a full cap refused may come back.
	rates   *stats.Rates
	hearing chan struct{} // held while the rates of the other cores are read
	returns returnTimes
	// waits are how long new jobs are likely to wait.
	waits waits
	// core names this core among the others.
	core uuid.UUID
	log  *slog.Logger
}

// New makes an Explainer; Run tells the other cores of its rates.
func New(store *cell.Cell, cached *cache.Memory, rates *stats.Rates, log *slog.Logger) *Explainer {
	return &Explainer{store: store, cached: cached, rates: rates, hearing: make(chan struct{}, 1), core: uuid.New(), log: log}
}

// Run tells the other cores how many jobs start here, for as long as any do.
func (e *Explainer) Run(ctx context.Context) {
	reported := false
	for wait.For(ctx, pace.Jittered(reportEvery)) == nil {
		report := e.rates.Report(time.Now())
		if len(report) == 0 && !reported {
			continue
		}
		if err := e.store.Stats.ReportRates(ctx, e.core, report); err == nil {
			reported = len(report) > 0
		} else if ctx.Err() == nil {
			e.log.WarnContext(ctx, "how fast lines move is not told to other cores", "error", err)
		}
	}
}

// hear reads how many jobs start in the other cores, for all callers of a moment: one reads, and the others wait for it.
func (e *Explainer) hear(ctx context.Context) {
	select {
	case e.hearing <- struct{}{}:
		defer func() { <-e.hearing }()
	case <-ctx.Done():
		return
	}
	if !e.rates.Due(time.Now()) {
		return
	}
	others, err := e.store.Stats.OtherRates(ctx, e.core)
	if err != nil {
		if ctx.Err() == nil {
			e.log.WarnContext(ctx, "how fast lines move in other cores is not known", "error", err)
		} else {
			e.rates.Unheard()
		}
		return
	}
	e.rates.Heard(time.Now(), others, e.cached.Lanes.ByID)
}

// RetryAfter says when a caller that was refused for a full cap is likely to find room: each gets a time of its own. In a
// steady drain as many jobs end as start. Each core hands out as many of the places as jobs start in it.
func (e *Explainer) RetryAfter(key caps.CountKey) (time.Duration, bool) {
	now := time.Now()
	var ends float64
	switch key.Counter { //nolint:exhaustive // a submit is refused for these
	case caps.ActiveTenant:
		ends = e.rates.Here(now, stats.RateKey{Tenant: key.Tenant})
	case caps.ActiveUser:
		ends = e.rates.Here(now, stats.RateKey{Tenant: key.Tenant, User: key.Name})
	case caps.ActiveQueue:
		if settings := e.cached.Lanes.Settings(key.Tenant, key.Name); !e.cached.HeldBack(&settings) {
			ends = e.rates.Here(now, stats.RateKey{Tenant: key.Tenant, Queue: key.Name})
		}
	}
	if ends <= 0 {
		return 0, false
	}
	return e.returns.after(now, key, ends, rand.Float64()), true //nolint:gosec // spreads load, guards nothing
}
