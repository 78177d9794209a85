// Package engine puts together what runs in memory for one cell. PostgreSQL has the jobs; what is here decides which lanes
// a claim scans, which waiting claim is woken, and what a new job's defaults are:
//
//	operations, push, sweep
//	  │      │        │
//	  ▼      ▼        ▼
//	submits claims explain ──▶ the statements of the cell
//	  │      │
//	  ▼      ▼
//	 publish ──▶ cache, scheduler, watch, hints to other cores
//
// All state here is a hint: after a loss, the next refresh or poll finds the same jobs.
package engine

import (
	"context"
	"log/slog"
	"sync"

	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/internal/cache"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/explain"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/scheduler"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/watch"
)

// Engine is what serves the jobs of one cell.
type Engine struct {
	Claims    *claims.Claims
	Submits   *submits.Submits
	Explainer *explain.Explainer
	Publisher *publish.Publisher
	Stats     *publish.Recorder
	Cached    *cache.Memory
	Watches   *watch.Watches

	// drained is closed when this core stops: parked claims then end empty, so that their workers
	// ask another core.
	drained chan struct{}
	drain   sync.Once
}

// Options are what an Engine needs.
type Options struct {
	Store   *cell.Cell
	Metrics *metrics.Jobs
	Logger  *slog.Logger
	// Hints tell other cores; those that are nil tell nobody.
	Hints publish.Hints
	// MaxRunning caps the leases of the whole installation; 0 for no cap.
	MaxRunning int64
	// FairByJobs divides shared workers among tenants by jobs, and not by the time that these take.
	FairByJobs bool
	// Tracer makes spans; nil makes none.
	Tracer trace.Tracer
}

// New makes an Engine; Run keeps it up to date.
func New(o Options) *Engine {
	cached := cache.New(o.Store, o.MaxRunning)
	lists, parking := scheduler.NewReadyLists(cached.Lanes.ByID), &scheduler.Parking{}
	drained, traces := make(chan struct{}), publish.Traces{Tracer: o.Tracer}
	counted := publish.NewRecorder(o.Store, lists.AnyReady, o.Metrics.StatsLost)
	var times *scheduler.RunTimes
	if !o.FairByJobs {
		times = scheduler.NewRunTimes()
	}
	e := &Engine{
		Explainer: explain.New(o.Store, cached, counted.Rates(), o.Logger), Stats: counted,
		Cached: cached, Watches: watch.New(o.Store.JobReads, drained, o.Logger), drained: drained,
	}
	e.Publisher = publish.New(publish.Options{
		Cached: cached, Lists: lists, Parking: parking, Times: times, Watches: e.Watches, Stats: e.Stats, Metrics: o.Metrics, Traces: traces, Logger: o.Logger, Hints: o.Hints,
	})
	e.Claims = claims.New(claims.Options{
		Store: o.Store, Cached: cached, Lists: lists, Times: times, Parking: parking, Publisher: e.Publisher, Metrics: o.Metrics,
		Traces: traces, Logger: o.Logger, Drained: drained,
	})
	e.Submits = submits.New(submits.Options{
		Store: o.Store, Cached: cached, Publisher: e.Publisher, Explainer: e.Explainer, Metrics: o.Metrics, Traces: traces, Logger: o.Logger,
	})
	o.Store.Submits.OnFull(e.Explainer.RetryAfter)
	o.Store.Counts.OnUse(e.Stats.CountUses)
	return e
}

// Run refreshes what is cached and polls for what waits until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	group.Go(func() { e.Publisher.Run(ctx) })
	group.Go(func() { e.Claims.Run(ctx) })
	group.Go(func() { e.Watches.Run(ctx) })
	group.Go(func() { e.Explainer.Run(ctx) })
	group.Wait()
	return nil
}

// Drain ends every wait, now and from now on.
func (e *Engine) Drain() { e.drain.Do(func() { close(e.drained) }) }

// Flushes says how many requests wait for a flush.
func (e *Engine) Flushes() (waiting metrics.Flushes) {
	waiting.Submits, waiting.GuardedTenants = e.Submits.Waiting()
	waiting.Outcomes, waiting.Heartbeats = e.Claims.Waiting()
	return waiting
}
