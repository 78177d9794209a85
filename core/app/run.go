package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/seats"
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
	telemetry.TuneProcessors()
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
	client, err := openRedis(cfg)
	if err != nil {
		return err
	}
	if client != nil {
		defer func() { _ = client.Close() }()
	}
	p := &process{cfg: cfg, log: log, tracing: tracing, redis: client, public: public, private: private, registry: telemetry.NewRegistry()}
	if p.processors = cfg.Processors; p.processors == nil {
		p.processors = seats.Processors()
	}
	p.processors.Observe(metrics.NewProcessorSeconds(p.registry))
	if p.cells, err = cfg.listed(); err != nil {
		return err
	}
	all, err := p.instances(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, one := range all {
			one.close()
		}
	}()
	if err := each(all, func(i *instance) error { return i.openFirst(ctx) }); err != nil {
		return err
	}
	if err := oneInstallation(ctx, opened(all)); err != nil {
		return err
	}
	return p.serve(ctx, all)
}

// serve serves the cells. On the end, the requests end first, then the parts that they use.
func (p *process) serve(ctx context.Context, all []*instance) error {
	serving, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	duties, stopDuties := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDuties()
	var group sync.WaitGroup
	for _, one := range all {
		group.Go(func() {
			if err := one.run(duties); err != nil {
				fail(inCell(one.config.Name, err))
			}
		})
	}
	group.Go(func() {
		if err := httpserver.Run(duties, httpserver.Options{
			Listener: p.private, Handler: telemetry.AdminHandler(p.registry), Logger: p.log,
			Conns: httpserver.Connections{Most: metricsConnections},
		}); err != nil {
			p.log.ErrorContext(duties, "a part of core ended", "error", err)
		}
	})
	// Pushing ends with the requests: no new calls, running ones within the grace.
	pushing, stopPushing := context.WithCancel(ctx)
	defer stopPushing()
	var pushed sync.WaitGroup
	for _, one := range all {
		pushed.Go(func() { one.push(pushing) })
	}
	p.log.InfoContext(ctx, "core serves", "version", build.This().Version, "address", p.public.Addr().String(), "metrics", p.private.Addr().String())
	err := httpserver.Run(serving, httpserver.Options{
		Listener: p.public, Handler: p.handler(all), Grace: p.cfg.Grace, Logger: p.log,
		Conns:      httpserver.Connections{Most: httpserver.DefaultConnections()},
		MaxConnAge: maxConnAge, Notice: drainNotice, OnDrain: func() { p.draining.Store(true) },
		OnClose: func() {
			for _, one := range opened(all) {
				one.engine.engine.Drain()
			}
		},
	})
	stopPushing()
	pushed.Wait()
	stopDuties()
	group.Wait()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastStats)
	defer cancel()
	_ = each(opened(all), func(i *instance) error {
		i.engine.last(last)
		return nil
	})
	if ctx.Err() == nil && serving.Err() != nil { // a cell cannot be served
		err = context.Cause(serving)
	}
	p.log.InfoContext(ctx, "core has stopped", "clean", err == nil)
	return err
}

// handler gives each cell the paths below its prefix. Above them are the probes of the process, where it has several.
func (p *process) handler(all []*instance) http.Handler {
	mux := http.NewServeMux()
	for _, one := range all {
		mux.HandleFunc(one.prefix()+"/", func(w http.ResponseWriter, r *http.Request) { (*one.handler.Load()).ServeHTTP(w, r) })
	}
	if p.cells != nil {
		mux.Handle("/", httpapi.Probes(p.ready(all)))
	}
	return mux
}

// ready is what /readyz says of the process: it takes calls as soon as one of its cells does.
func (p *process) ready(all []*instance) func(context.Context) api.Readiness {
	return func(ctx context.Context) api.Readiness {
		states := make([]api.Readiness, len(all))
		_ = each(all, func(i *instance) error {
			states[slices.Index(all, i)] = i.ready(ctx)
			return nil
		})
		made := api.Readiness{Status: "ok", Checks: map[string]string{}}
		starting := 0
		for i, state := range states {
			made.Checks["cell "+all[i].config.Name] = state.Checks["database"]
			if state.Status != "ok" {
				made.Status, made.Reason = "degraded", state.Reason
			}
			if state.Status == "starting" {
				starting++
			}
		}
		switch {
		case p.draining.Load():
			return api.Readiness{Status: "draining", Checks: map[string]string{}}
		case starting == len(all):
			made.Status = "starting"
		}
		return made
	}
}

// bodyMemory is how many bytes the bodies of concurrent calls may take: a quarter of the process's
// memory limit, 512 MiB without a limit.
func bodyMemory() int64 {
	if limit := memory.Limit(); limit > 0 {
		return limit / 4
	}
	return 512 << 20
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
