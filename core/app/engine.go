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
	// The promoter wakes claims, and returned jobs may have to be promoted.
	var promoter *sweep.Promoter
	var ticker *sweep.Ticker
	dispatcher = dispatch.New(dispatch.Options{
		Store: store, Metrics: meters.jobs, Logger: log, Publish: notifier.Ready, PublishEnded: notifier.Ended, PublishSettings: notifier.Settings, PublishLeft: notifier.Left,
		Scheduled: func() { promoter.Kick() }, ScheduleChanged: func() { ticker.Kick() }, MaxRunning: o.cfg.MaxRunning, Tracer: o.tracing.Tracer(),
	})
	store.OnNewPrimary(dispatcher.NewPrimary)
	ticker = sweep.NewTicker(store, dispatcher, meters.jobs, log)
	promoter = sweep.NewPromoter(store, dispatcher, meters.jobs, log)
	// Before the first call: core may have been down for longer than daysAhead.
	if err := store.MakePartitions(ctx); err != nil {
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
	stats := sweep.NewStats(store, dispatcher, meters.jobs, log)
	last := []func(context.Context) error{stats.Append}
	duties := append(sweeps(store, dispatcher, promoter, meters, log),
		stats.Run,
		store.WatchPrimary,
		dispatcher.Run,
		promoter.Run,
		ticker.Run,
		func(ctx context.Context) error {
			return notifier.Run(ctx, listener(dispatcher))
		},
	)
	if o.public != nil {
		process := sweep.NewProcess(store, installation.Report{ID: rand.Text(), Address: httpserver.HostPort(o.public), Version: build.This().Version}, meters.jobs, log)
		duties, last = append(duties, process.Run), append(last, process.Forget)
	}
	return &engine{dispatcher: dispatcher, server: server, duties: duties, push: pusher, last: func(ctx context.Context) {
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

// sweeps are the background duties, without the promoter.
func sweeps(store *cell.Cell, dispatcher *dispatch.Dispatcher, promoter *sweep.Promoter, meters meters, log *slog.Logger) []func(context.Context) error {
	followUps := sweep.NewFollowUps(store, dispatcher, meters.jobs, log)
	store.OnFollowUp(followUps.Kick)
	deliveries := sweep.NewDeliveries(store, dispatcher, meters.jobs, log)
	store.OnEvent(deliveries.Kick)
	return []func(context.Context) error{
		followUps.Run,
		deliveries.Run,
		sweep.NewReaper(store, dispatcher, promoter.Kick, meters.jobs, log).Run,
		sweep.NewDeadlines(store, dispatcher, meters.jobs, log).Run,
		sweep.NewWorkers(store, dispatcher, promoter.Kick, meters.jobs, log).Run,
		sweep.NewPartitions(store, meters.jobs, log).Run,
		sweep.NewForgetter(store, meters.jobs, log).Run,
		sweep.NewLedger(store, meters.jobs, log).Run,
		sweep.NewLanes(store, dispatcher, meters.jobs, log).Run,
		sweep.NewTenants(store, meters.jobs, log).Run,
		sweep.NewRedriver(store, dispatcher, meters.jobs, log).Run,
		sweep.NewUsage(store, dispatcher, meters.jobs, log).Run,
		sweep.NewDepths(store, dispatcher, meters.depths, meters.jobs, log).Run,
	}
}
