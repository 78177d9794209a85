package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/sweep"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/build"
	"github.com/forgequeue/forgequeue/shared/clock"
	"github.com/forgequeue/forgequeue/shared/httpserver"
	"github.com/forgequeue/forgequeue/shared/identity"
	"github.com/forgequeue/forgequeue/shared/memory"
	"github.com/forgequeue/forgequeue/shared/redisurl"
	"github.com/forgequeue/forgequeue/shared/telemetry"
)

// drainNotice is how long a core that stops still accepts calls, and asks gateways to close their
// connections: a call written to a connection that closes has an unknown outcome.
const drainNotice = 250 * time.Millisecond

// metricsConnections is enough for a Prometheus or two, and operators.
const metricsConnections = 32

// maxConnAge is about how long a gateway uses a connection: then cores that were added get their
// share.
const maxConnAge = 30 * time.Second

// lastStats bounds the append of what was counted before the end.
const lastStats = 5 * time.Second

// Run serves core until ctx ends, then drains: no new requests, those in flight end, the background
// duties stop last. It gives nil after a clean drain.
func Run(ctx context.Context, cfg Config) error {
	telemetry.TuneGC()
	memory.Tune()
	// In all cases, given listeners are closed; closing them twice is harmless.
	defer closeAll(cfg.Listener, cfg.MetricsListener)
	if err := cfg.check(); err != nil {
		return err
	}
	log, err := cfg.logger()
	if err != nil {
		return err
	}
	public, private, err := listen(cfg)
	if err != nil {
		return err
	}
	defer closeAll(public, private)
	tracing, err := cfg.Tracing.Start(ctx, "forgequeue-core", build.This().Version, log)
	if err != nil {
		return err
	}
	defer tracing.Stop(ctx)
	options := cfg.storeOptions()
	options.Logger = log
	options.Tracing, options.Attempts = tracing.Provider(), log.Enabled(ctx, slog.LevelInfo)
	store, err := openMigrated(ctx, options)
	if err != nil {
		return err
	}
	defer store.Close()
	client, err := openRedis(cfg)
	if err != nil {
		return err
	}
	if client != nil {
		defer func() { _ = client.Close() }()
	}
	return serve(ctx, cfg, log, tracing, store, hints.New(client, log), public, private)
}

// serve builds the parts and runs them. On the end, the requests end first, then the parts that
// they use.
func serve(ctx context.Context, cfg Config, log *slog.Logger, tracing *telemetry.Tracing, store *cell.Cell, notifier *hints.Hints, public, private net.Listener) error {
	registry := telemetry.NewRegistry()
	var dispatcher *dispatch.Dispatcher
	meters := newMeters(registry, store.Connections, func() metrics.Flushes { return dispatcher.Flushes() })
	// The promoter wakes claims, and returned jobs may have to be promoted.
	var promoter *sweep.Promoter
	var ticker *sweep.Ticker
	dispatcher = dispatch.New(dispatch.Options{
		Store: store, Metrics: meters.jobs, Logger: log, Publish: notifier.Ready, PublishEnded: notifier.Ended, PublishSettings: notifier.Settings, PublishLeft: notifier.Left,
		Scheduled: func() { promoter.Kick() }, ScheduleChanged: func() { ticker.Kick() }, MaxRunning: cfg.MaxRunning, Tracer: tracing.Tracer(),
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
	pages, err := cfg.pageKeys()
	if err != nil {
		return err
	}
	var draining atomic.Bool
	server := &httpapi.Server{
		Store: store, Dispatcher: dispatcher, Hints: notifier, Verifier: cfg.verifier(), Logger: log, Draining: draining.Load,
		Tracer: tracing.Tracer(), Bodies: httpapi.NewBodies(bodyMemory()), Pages: pages,
	}
	pusher, err := newPusher(cfg, log, tracing, server, meters.push)
	if err != nil {
		return err
	}
	handler := server.Handler(registry)

	duties, stopDuties := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDuties()
	var group sync.WaitGroup
	stats := sweep.NewStats(store, dispatcher, meters.jobs, log)
	for _, run := range append(sweeps(store, dispatcher, promoter, meters, log),
		stats.Run,
		store.WatchPrimary,
		dispatcher.Run,
		promoter.Run,
		ticker.Run,
		func(ctx context.Context) error {
			return notifier.Run(ctx, listener(dispatcher))
		},
		func(ctx context.Context) error {
			return httpserver.Run(ctx, httpserver.Options{
				Listener: private, Handler: telemetry.AdminHandler(registry), Logger: log,
				Conns: httpserver.Connections{Most: metricsConnections},
			})
		},
	) {
		group.Go(func() {
			if err := run(duties); err != nil {
				log.ErrorContext(duties, "a part of core ended", "error", err)
			}
		})
	}
	// Pushing ends with the requests: no new calls, running ones within the grace.
	pushing, stopPushing := context.WithCancel(ctx)
	defer stopPushing()
	var pushed sync.WaitGroup
	pushed.Go(func() { pusher(pushing) })
	log.InfoContext(ctx, "core serves", "address", public.Addr().String(), "metrics", private.Addr().String())
	err = httpserver.Run(ctx, httpserver.Options{
		Listener: public, Handler: handler, Grace: cfg.Grace, Logger: log,
		Conns:      httpserver.Connections{Most: httpserver.DefaultConnections()},
		MaxConnAge: maxConnAge, Notice: drainNotice, OnDrain: func() { draining.Store(true) }, OnClose: dispatcher.Drain,
	})
	stopPushing()
	pushed.Wait()
	stopDuties()
	group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStats)
	defer cancel()
	if err := stats.Append(last); err != nil {
		log.WarnContext(ctx, "the last job stats are lost", "error", err)
	}
	log.InfoContext(ctx, "core has stopped", "clean", err == nil)
	return err
}

// listener is what hints of other cores do here.
func listener(d *dispatch.Dispatcher) hints.Listener {
	return hints.Listener{Ready: d.WakeHere, Settings: d.RefreshSoon, Ended: func(ids []uuid.UUID) { d.Changed(ids...) }, Left: d.WorkerLeft}
}

// bodyMemory is how many bytes the bodies of concurrent calls may take: a quarter of the process's
// memory limit, 1 GiB without a limit.
func bodyMemory() int64 {
	if limit := memory.Limit(); limit > 0 {
		return limit / 4
	}
	return 1 << 30
}

// Migrate brings the database to this version's schema and creates the partitions of the next days.
// It gives the versions applied, none if all were.
func Migrate(ctx context.Context, cfg Config) ([]int64, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	store, err := cell.Open(ctx, cfg.storeOptions())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	return store.Migrate(ctx)
}

// Verify recounts the counts of caps and checks the other invariants between the tables of the
// database. It gives a line for each violation, none if all is right. It changes nothing, and may
// run while cores run.
func Verify(ctx context.Context, cfg Config) ([]string, error) {
	if err := cfg.checkDatabase(); err != nil {
		return nil, err
	}
	store, err := openMigrated(ctx, cfg.storeOptions())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	ctx, cancel := context.WithTimeout(ctx, usage.OperatorTime)
	defer cancel()
	drifts, err := store.Verify(ctx)
	if err != nil {
		return nil, err
	}
	invalid, err := store.InvalidIndexes(ctx)
	if err != nil {
		return nil, err
	}
	waits, err := store.VerifyDependencies(ctx)
	lines := make([]string, 0, len(drifts)+len(invalid)+len(waits))
	for _, drift := range drifts {
		lines = append(lines, drift.String())
	}
	for _, name := range invalid {
		lines = append(lines, "index: "+name+" is not valid, as after an interrupted `core migrate`; run it again")
	}
	return append(lines, waits...), err
}

// Recount resets the counts of caps that Verify found wrong, and gives how many jobs were counted.
// Jobs do not change, caps stay in force. No core may run on the database: otherwise it is an
// error, and nothing changes.
func Recount(ctx context.Context, cfg Config) (jobs int64, err error) {
	if err := cfg.checkDatabase(); err != nil {
		return 0, err
	}
	options := cfg.storeOptions()
	options.MaxConns = 1 // otherwise its own connections would look like another core's
	store, err := openMigrated(ctx, options)
	if err != nil {
		return 0, err
	}
	defer store.Close()
	return store.Recount(ctx)
}

// openMigrated opens the store and refuses a schema or counts that this version cannot use.
func openMigrated(ctx context.Context, options cell.Options) (*cell.Cell, error) {
	store, err := cell.Open(ctx, options)
	if err != nil {
		return nil, err
	}
	pending, err := store.SchemaPending(ctx)
	if err == nil && pending > 0 {
		err = fmt.Errorf("core: the database lacks %d migrations; run `core migrate` with the same DATABASE_URL first", pending)
	}
	foreign := false
	if err == nil {
		foreign, err = store.ForeignCounters(ctx)
	}
	if err == nil && foreign {
		err = errors.New("core: the counts of caps were written by another server, as after the restore of a dump; " +
			"run `core migrate` with the same DATABASE_URL first, which resets them")
	}
	if err != nil {
		store.Close()
		return nil, err
	}
	return store, nil
}

func (cfg Config) storeOptions() cell.Options {
	return cell.Options{Options: store.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: cfg.DatabaseConns, PoolWait: cfg.DatabaseWait, AllowUnsafe: cfg.AllowLossy}, Retention: retention.Periods{Finished: days(cfg.RetainFinished), DeadLetters: days(cfg.RetainDead), Audit: days(cfg.RetainAudit)}}
}

func (cfg Config) verifier() identity.Verifier {
	verifier := identity.Verifier{
		Secrets: [][]byte{[]byte(cfg.HopSecret.Reveal())}, Window: api.HopAssertionWindow * time.Second,
		Seen: identity.NewSeen(clock.Now()),
	}
	if cfg.HopSecretPrevious != "" {
		verifier.Secrets = append(verifier.Secrets, []byte(cfg.HopSecretPrevious.Reveal()))
	}
	return verifier
}

// pageKeys seal page tokens. They are derived from the hop's secrets, which all cores share: a list
// continues at another core, also while the secret is changed.
func (cfg Config) pageKeys() (*seal.Keys, error) {
	secrets := []string{cfg.HopSecret.Reveal()}
	if cfg.HopSecretPrevious != "" {
		secrets = append(secrets, cfg.HopSecretPrevious.Reveal())
	}
	return seal.New(secrets...)
}

func (cfg Config) logger() (*slog.Logger, error) {
	if cfg.Logger != nil {
		return cfg.Logger, nil
	}
	return telemetry.NewLogger(os.Stderr, cfg.LogFormat, cfg.LogLevel)
}

func listen(cfg Config) (public, private net.Listener, err error) {
	public, private = cfg.Listener, cfg.MetricsListener
	if public == nil {
		if public, err = net.Listen("tcp", cfg.Listen); err != nil {
			return nil, nil, fmt.Errorf("core: FORGEQUEUE_CORE_LISTEN: %w", err)
		}
	}
	if private == nil {
		if private, err = net.Listen("tcp", cfg.MetricsListen); err != nil {
			_ = public.Close()
			return nil, nil, fmt.Errorf("core: FORGEQUEUE_CORE_METRICS_LISTEN: %w", err)
		}
	}
	return public, private, nil
}

func closeAll(listeners ...net.Listener) {
	for _, listener := range listeners {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// redisOptions gives nil without Redis: then there are only polls.
func redisOptions(cfg Config) (*redis.UniversalOptions, error) {
	if cfg.RedisURL == "" {
		return nil, nil //nolint:nilnil // see above
	}
	target, err := redisurl.Parse(cfg.RedisURL.Reveal())
	if err != nil {
		return nil, err
	}
	return &redis.UniversalOptions{
		Addrs: target.Addrs, IsClusterMode: target.Cluster, MasterName: target.Master, DB: target.DB,
		Username: target.Username, Password: target.Password, TLSConfig: target.TLS,
		SentinelUsername: target.SentinelUsername, SentinelPassword: target.SentinelPassword,
	}, nil
}

func openRedis(cfg Config) (redis.UniversalClient, error) {
	options, err := redisOptions(cfg)
	if err != nil {
		return nil, fmt.Errorf("core: REDIS_URL: %w", err)
	}
	if options == nil {
		return nil, nil //nolint:nilnil // no Redis is no error
	}
	return hints.Connect(options), nil
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }

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
