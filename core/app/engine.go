package app

import (
	"context"
	"crypto/rand"

	"github.com/forgequeue/forgequeue/core/internal/administration"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/operations"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
)

// cellEngine is what serves the jobs of one cell: its engine, server and duties.
type cellEngine struct {
	engine *engine.Engine
	server *httpapi.Server
	// duties and push run until their context ends, last is done after them.
	duties []func(context.Context) error
	push   func(context.Context)
	last   func(context.Context)
}

// newEngine builds the parts; it runs none.
func newEngine(ctx context.Context, i *instance, store *cell.Cell, notifier *hints.Hints) (*cellEngine, error) {
	log := i.logger()
	var made *engine.Engine
	meters := newMeters(i.metrics(), store.Connections, func() metrics.Flushes { return made.Flushes() })
	made = engine.New(engine.Options{
		Store: store, Metrics: meters.jobs, Logger: log, MaxRunning: i.cfg.MaxRunning, FairByJobs: i.cfg.FairBy == fairByJobs, Tracer: i.tracing.Tracer(),
		Hints: publish.Hints{Ready: notifier.Ready, Ended: notifier.Ended, Settings: notifier.Settings, Left: notifier.Left, Arrive: notifier.Arrive},
	})
	store.OnNewPrimary(made.Publisher.NewPrimary)
	duties := sweep.New(store, made, meters.jobs, log)
	// Before the first call: core may have been down for longer than daysAhead.
	if err := store.Retention.MakePartitions(ctx); err != nil {
		log.WarnContext(ctx, "partitions could not be made yet", "error", err)
	}
	if err := made.Publisher.Refresh(ctx); err != nil {
		log.WarnContext(ctx, "lanes are not known yet", "error", err)
	}
	pages, err := i.cfg.pageKeys()
	if err != nil {
		return nil, err
	}
	follow, err := i.follow(ctx, store, made, notifier)
	if err != nil {
		return nil, err
	}
	targets, pusher, err := newPusher(i.cfg, log, i.tracing, made, store, meters.push)
	if err != nil {
		return nil, err
	}
	server := &httpapi.Server{
		Operations: operations.New(operations.Options{
			Store: store, Engine: made, Hints: notifier, Logger: log, Pages: pages, Targets: targets, Processors: i.processors, Draining: i.draining.Load,
		}),
		Administration: i.administration(store, made, notifier, pages),
		Cell:           httpapi.Cell{Name: i.config.Name, Prefix: i.prefix(), Copies: !i.config.Home()},
		Verifier:       i.cfg.verifier(), Logger: log, Bodies: httpapi.NewBodies(bodyMemory()), Processors: i.processors, Draining: i.draining.Load, Tracer: i.tracing.Tracer(),
	}
	stats, rollUp := duties.Stats()
	table := append(dutyTable(duties, store, meters.depths), stats, rollUp)
	if named, _ := i.cfg.metricsQueues(); len(named) > 0 { // checked before
		table = append(table, duties.NamedQueues(meters.queues, named))
	}
	last := []func(context.Context) error{func(ctx context.Context) error {
		_, err := stats.RunOnce(ctx)
		return err
	}}
	report := installation.Report{ID: rand.Text(), Address: httpserver.HostPort(i.public), Version: build.This().Version}
	table = append(table, duties.Process(report))
	last = append(last, func(ctx context.Context) error { return store.Processes.ForgetProcess(ctx, report.ID) })
	runs := []func(context.Context) error{
		store.WatchPrimary,
		made.Run,
		follow,
		func(ctx context.Context) error {
			return notifier.Run(ctx, listener(made))
		},
	}
	for _, duty := range table {
		runs = append(runs, duty.Run)
	}
	return &cellEngine{engine: made, server: server, duties: runs, push: pusher, last: func(ctx context.Context) {
		for _, do := range last {
			if err := do(ctx); err != nil {
				log.WarnContext(ctx, "the last reports of this core are lost", "error", err)
			}
		}
	}}, nil
}

// follow is what copies the directory to a cell that is not the home; the home cell has it.
func (i *instance) follow(ctx context.Context, store *cell.Cell, made *engine.Engine, notifier *hints.Hints) (run func(context.Context) error, err error) {
	if i.config.Home() {
		return func(context.Context) error { return nil }, nil
	}
	home, err := directory.NewHome(i.homeURL(), []byte(i.cfg.HopSecret.Reveal()))
	if err != nil {
		return nil, err
	}
	is, err := store.Processes.ThisCell(ctx)
	if err != nil {
		return nil, err
	}
	feed := &directory.Feed{
		Store: store.Store, Cell: is.Name, Installation: is.Installation.String(), Home: home, Log: i.logger(),
		Changed: func(ctx context.Context) {
			if err := made.Publisher.Refresh(ctx); err != nil {
				i.logger().WarnContext(ctx, "changed limits are not in force yet", "error", err)
			}
			notifier.Settings()
			made.Publisher.Deleted.Kick() // one of them may be a deletion
		},
	}
	made.Cached.Limits.FollowsHome(feed.CatchUp)
	return feed.Run, nil
}

// administration is what serves operators. Tenants are placed in the home cell, which knows all cells.
func (i *instance) administration(store *cell.Cell, made *engine.Engine, notifier *hints.Hints, pages *seal.Keys) *administration.Administration {
	serves := &administration.Administration{
		Store: store, Engine: made, Hints: notifier, Logger: i.logger(), Pages: pages, Cell: i.config.Name, Draining: i.draining.Load,
	}
	if i.config.Home() {
		serves.Cells = i.cells
	}
	return serves
}

// listener is what hints of other cores do here.
func listener(e *engine.Engine) hints.Listener {
	return hints.Listener{Ready: e.Publisher.WakeHere, Ended: e.Watches.Wake, Left: e.Claims.WorkerLeft, Settings: func() {
		e.Publisher.RefreshSoon()
		e.Publisher.Schedules.Kick()
	}}
}

// dutyTable lists the background duties that nothing else of the engine knows.
func dutyTable(d sweep.Duties, store *cell.Cell, depths *metrics.Depths) []*sweep.Duty {
	followUps, deliveries, gates := d.FollowUps(), d.Deliveries(), d.Gates()
	store.Dependencies.OnFollowUp(followUps.Kick)
	store.Events.OnAppended(deliveries.Kick)
	store.Gates.OnCheck(gates.Kick)
	reap, contact := d.Reap()
	return append(d.Retention(),
		followUps,
		gates,
		d.GateSweep(), d.BudgetForget(), d.SignalForget(),
		d.FollowUpAge(),
		deliveries,
		d.Removals(),
		d.Alerts(),
		reap,
		contact,
		d.Promote(),
		d.Schedules(),
		d.Deadlines(),
		d.Workers(),
		d.Partitions(),
		d.Ledger(),
		d.Lanes(),
		d.Tenants(),
		d.Redrives(),
		d.Usage(),
		d.Depths(depths),
	)
}
