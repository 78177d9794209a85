package app

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/installation"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/shared/build"
	"github.com/forgequeue/forgequeue/shared/httpserver"
	"github.com/forgequeue/forgequeue/shared/telemetry"
)

// engine is what serves the jobs of one cell: its pool, lanes, flushes, and duties.
type engine struct {
	dispatcher *dispatch.Dispatcher
	server     *httpapi.Server
	// duties and push run until their context ends, last is done after them.
	duties []func(context.Context) error
	push   func(context.Context)
	last   func(context.Context)
}

type engineOptions struct {
	cfg      Config
	log      *slog.Logger
	tracing  *telemetry.Tracing
	store    *cell.Cell
	notifier *hints.Hints
	registry prometheus.Registerer
	// draining says that the process is about to stop.
	draining func() bool
	// public is where the process listens; nil for a cell that is not the home cell.
	public net.Listener
}

// newEngine builds the parts; it runs none.
func newEngine(ctx context.Context, o engineOptions) (*engine, error) {
	store, log, notifier := o.store, o.log, o.notifier
	var dispatcher *dispatch.Dispatcher
	meters := newMeters(o.registry, store.Connections, func() metrics.Flushes { return dispatcher.Flushes() })
	// The dispatcher kicks these two duties, which are made with the dispatcher.
	var promote, schedules *sweep.Duty
	scheduled := func() { promote.Kick() }
	dispatcher = dispatch.New(dispatch.Options{
		Store: store, Metrics: meters.jobs, Logger: log, Publish: notifier.Ready, PublishEnded: notifier.Ended, PublishSettings: notifier.Settings, PublishLeft: notifier.Left,
		Scheduled: scheduled, ScheduleChanged: func() { schedules.Kick() }, MaxRunning: o.cfg.MaxRunning, Tracer: o.tracing.Tracer(),
	})
	store.OnNewPrimary(dispatcher.NewPrimary)
	duties := sweep.New(store, dispatcher, scheduled, meters.jobs, log)
	promote, schedules = duties.Promote(), duties.Schedules()
	// Before the first call: core may have been down for longer than daysAhead.
	if err := store.Retention.MakePartitions(ctx); err != nil {
		log.WarnContext(ctx, "partitions could not be made yet", "error", err)
	}
	if err := dispatcher.Refresh(ctx); err != nil {
		log.WarnContext(ctx, "lanes are not known yet", "error", err)
	}
	pages, err := o.cfg.pageKeys()
	if err != nil {
		return nil, err
	}
	server := &httpapi.Server{
		Store: store, Dispatcher: dispatcher, Hints: notifier, Verifier: o.cfg.verifier(), Logger: log, Draining: o.draining,
		Tracer: o.tracing.Tracer(), Bodies: httpapi.NewBodies(bodyMemory()), Pages: pages,
	}
	pusher, err := newPusher(o.cfg, log, o.tracing, server, meters.push)
	if err != nil {
		return nil, err
	}
	stats, rollUp := duties.Stats()
	table := append(dutyTable(duties, store, meters.depths), promote, schedules, stats, rollUp)
	last := []func(context.Context) error{func(ctx context.Context) error {
		_, err := stats.RunOnce(ctx)
		return err
	}}
	if o.public != nil {
		report := installation.Report{ID: rand.Text(), Address: httpserver.HostPort(o.public), Version: build.This().Version}
		table = append(table, duties.Process(report))
		last = append(last, func(ctx context.Context) error { return store.Processes.ForgetProcess(ctx, report.ID) })
	}
	runs := []func(context.Context) error{
		store.WatchPrimary,
		dispatcher.Run,
		func(ctx context.Context) error {
			return notifier.Run(ctx, listener(dispatcher))
		},
	}
	for _, duty := range table {
		runs = append(runs, duty.Run)
	}
	return &engine{dispatcher: dispatcher, server: server, duties: runs, push: pusher, last: func(ctx context.Context) {
		for _, do := range last {
			if err := do(ctx); err != nil {
				log.WarnContext(ctx, "the last reports of this core are lost", "error", err)
			}
		}
	}}, nil
}

// listener is what hints of other cores do here.
func listener(d *dispatch.Dispatcher) hints.Listener {
	return hints.Listener{Ready: d.WakeHere, Settings: d.RefreshSoon, Ended: func(ids []uuid.UUID) { d.Changed(ids...) }, Left: d.WorkerLeft}
}

// dutyTable lists the background duties that nothing else of the engine knows.
func dutyTable(d sweep.Duties, store *cell.Cell, depths *metrics.Depths) []*sweep.Duty {
	followUps, deliveries := d.FollowUps(), d.Deliveries()
	store.Dependencies.OnFollowUp(followUps.Kick)
	store.Events.OnAppended(deliveries.Kick)
	reap, contact := d.Reap()
	return append(d.Retention(),
		followUps,
		d.FollowUpAge(),
		deliveries,
		d.Removals(),
		reap,
		contact,
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
