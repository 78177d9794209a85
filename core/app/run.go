package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
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
// duties stop last. It waits for a database that is away at the start. It gives nil after a clean drain.
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
	client, err := openRedis(cfg)
	if err != nil {
		return err
	}
	if client != nil {
		defer func() { _ = client.Close() }()
	}
	if cfg.Cells != "" {
		return serveCells(ctx, cellsOptions{cfg: cfg, log: log, tracing: tracing, store: options, redis: client, public: public, private: private})
	}
	var store *cell.Cell
	err = whenThere(ctx, log, public, func(ctx context.Context) (err error) {
		store, err = openAlone(ctx, options)
		return err
	})
	if err != nil || store == nil { // stopped while it waited
		return err
	}
	defer store.Close()
	return serve(ctx, cfg, log, tracing, store, hints.New(store.Identity, client, log), public, private)
}

// serve serves one cell: the engine's own server is the door.
func serve(ctx context.Context, cfg Config, log *slog.Logger, tracing *telemetry.Tracing, store *cell.Cell, notifier *hints.Hints, public, private net.Listener) error {
	registry := telemetry.NewRegistry()
	var draining atomic.Bool
	e, err := newEngine(ctx, engineOptions{
		cfg: cfg, log: log, tracing: tracing, store: store, notifier: notifier, registry: registry, draining: draining.Load, public: public,
	})
	if err != nil {
		return err
	}
	return door{
		cfg: cfg, log: log, registry: registry, public: public, private: private, draining: &draining,
		handler: e.server.Handler(registry), duties: e.duties, push: e.push, drain: e.engine.Drain, last: e.last,
	}.serve(ctx)
}

// door is what core listens with, and what runs behind it.
type door struct {
	cfg             Config
	log             *slog.Logger
	registry        *prometheus.Registry
	public, private net.Listener
	draining        *atomic.Bool
	handler         http.Handler
	// duties run until the requests have ended, push until they are to end.
	duties []func(context.Context) error
	push   func(context.Context)
	// drain ends the waits for work, last is done when all else has ended.
	drain func()
	last  func(context.Context)
}

// serve runs the parts. On the end, the requests end first, then the parts that they use.
func (d door) serve(ctx context.Context) error {
	duties, stopDuties := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDuties()
	var group sync.WaitGroup
	for _, run := range append(d.duties, func(ctx context.Context) error {
		return httpserver.Run(ctx, httpserver.Options{
			Listener: d.private, Handler: telemetry.AdminHandler(d.registry), Logger: d.log,
			Conns: httpserver.Connections{Most: metricsConnections},
		})
	}) {
		group.Go(func() {
			if err := run(duties); err != nil {
				d.log.ErrorContext(duties, "a part of core ended", "error", err)
			}
		})
	}
	// Pushing ends with the requests: no new calls, running ones within the grace.
	pushing, stopPushing := context.WithCancel(ctx)
	defer stopPushing()
	var pushed sync.WaitGroup
	pushed.Go(func() { d.push(pushing) })
	d.log.InfoContext(ctx, "core serves", "address", d.public.Addr().String(), "metrics", d.private.Addr().String())
	err := httpserver.Run(ctx, httpserver.Options{
		Listener: d.public, Handler: d.handler, Grace: d.cfg.Grace, Logger: d.log,
		Conns:      httpserver.Connections{Most: httpserver.DefaultConnections()},
		MaxConnAge: maxConnAge, Notice: drainNotice, OnDrain: func() { d.draining.Store(true) }, OnClose: d.drain,
	})
	stopPushing()
	pushed.Wait()
	stopDuties()
	group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStats)
	defer cancel()
	d.last(last)
	d.log.InfoContext(ctx, "core has stopped", "clean", err == nil)
	return err
}

// bodyMemory is how many bytes the bodies of concurrent calls may take: a quarter of the process's
// memory limit, 1 GiB without a limit.
func bodyMemory() int64 {
	if limit := memory.Limit(); limit > 0 {
		return limit / 4
	}
	return 1 << 30
}

func (cfg Config) storeOptions() cell.Options {
	return cell.Options{Options: store.Options{URL: cfg.DatabaseURL.Reveal(), MaxConns: cfg.DatabaseConns, PoolWait: cfg.DatabaseWait, AllowUnsafe: cfg.AllowLossy}, Retention: retention.Periods{Finished: days(cfg.RetainFinished), DeadLetters: days(cfg.RetainDead), Audit: days(cfg.RetainAudit)}}
}

func (cfg Config) verifier() identity.Verifier {
	verifier := identity.Verifier{
		Secrets: [][]byte{[]byte(cfg.HopSecret.Reveal())}, Window: hop.AssertionWindow * time.Second,
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

// openRedis gives nil without Redis: then there are only polls.
func openRedis(cfg Config) (*redisclient.Client, error) {
	if cfg.RedisURL == "" {
		return nil, nil //nolint:nilnil // no Redis is no error
	}
	client, err := hints.Connect(cfg.RedisURL.Reveal())
	if err != nil {
		return nil, fmt.Errorf("core: REDIS_URL: %w", err)
	}
	return client, nil
}

func days(n int) time.Duration { return time.Duration(n) * 24 * time.Hour }
