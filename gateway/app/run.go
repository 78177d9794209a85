// Package app is the gateway as a whole: Config and Run, called by its own main,
// by `forgequeue up` and by tests.
package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/console"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// metricsConnections is for a Prometheus or two, and people.
const metricsConnections = 32

// Run serves until ctx ends and then drains. It gives nil after a clean drain.
// Core and Redis may be down at its start and at any time.
func Run(ctx context.Context, cfg Config) error {
	telemetry.TuneGC()
	telemetry.TuneProcessors()
	memory.Tune()
	logger, err := cfg.logger()
	if err == nil {
		err = cfg.check()
	}
	if err == nil {
		cfg, err = cfg.listen(ctx)
	}
	if err != nil {
		return errors.Join(err, cfg.closeListeners())
	}
	registry := telemetry.NewRegistry()
	tracing, err := cfg.Tracing.Start(ctx, "forgequeue-gateway", build.This().Version, logger)
	if err != nil {
		return errors.Join(err, cfg.closeListeners())
	}
	defer tracing.Stop(ctx)
	parts, err := cfg.assemble(logger, registry, tracing)
	if err != nil {
		return errors.Join(err, cfg.closeListeners())
	}
	return errors.Join(parts.serve(ctx, cfg, logger, registry), parts.close())
}

// parts are what lives as long as the gateway.
type parts struct {
	redis   *admission.Redis
	limiter *admission.Limiter
	core    *coreclient.Client
	auth    *auth.Authenticator
	types   *jobtype.Checker
	api     *httpapi.Server
	conns   httpserver.Connections
}

// assemble makes the parts; it dials and starts nothing.
func (cfg Config) assemble(logger *slog.Logger, registry prometheus.Registerer, tracing *telemetry.Tracing) (*parts, error) {
	proxies, err := cfg.proxies()
	if err != nil {
		return nil, fmt.Errorf("FORGEQUEUE_TRUSTED_PROXIES: %w", err)
	}
	redis, err := admission.ConnectWithin(cfg.RedisURL.Reveal(), cfg.RedisTimeout)
	if err != nil {
		return nil, err
	}
	if err := redis.Trace(tracing.Provider()); err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	processors := cfg.Processors
	if processors == nil {
		processors = seats.Processors()
	}
	processors.Observe(newProcessorSeconds(registry))
	core, err := coreclient.New(coreclient.Options{
		Processors: processors,
		URL:        cfg.CoreURL, Secret: []byte(cfg.HopSecret), Logger: logger, Limits: cfg.hopLimits(), Registry: registry,
		Now: clock.Now,
	})
	if err != nil {
		return nil, errors.Join(err, redis.Close())
	}
	p := &parts{redis: redis, core: core, conns: cfg.connLimits(proxies)}
	p.limiter = admission.NewLimiter(redis, admission.LimiterOptions{Replicas: cfg.Replicas, Logger: logger, Registry: registry})
	p.auth = auth.New(auth.Options{
		KeySecret:   []byte(cfg.KeySecret),
		OperatorKey: cfg.OperatorKey.Reveal(),
		Lookup:      core.LookUpKey, LookupTenant: core.LookUpTenant,
	})
	pages, err := cfg.console(console.Options{
		Processors: processors,
		Links:      console.Links{Charge: p.limiter.ChargeLink, First: p.limiter.FirstUse},
		Forms:      console.Forms{First: p.limiter.FirstForm, Forget: p.limiter.ForgetForm}, Hold: p.auth.HoldSession,
	}, logger)
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.types = jobtype.NewChecker(jobtype.Options{Set: core.ReadTypes, Schema: core.ReadSchema, Seats: processors})
	p.api = httpapi.New(httpapi.Options{
		Auth:       p.auth,
		Core:       core,
		Types:      p.types,
		Redis:      redis,
		Limiter:    p.limiter,
		Proxies:    proxies,
		IPLimit:    cfg.ipLimit(),
		FailedKeys: cfg.failedKeys(),
		Bodies:     request.NewBudget(cfg.bodyMemory()),
		Processors: processors,
		KeySecret:  []byte(cfg.KeySecret),
		KeyEnv:     cfg.KeyEnv,
		PublicURL:  strings.TrimSuffix(cfg.PublicURL, "/"),
		Admin:      cfg.OperatorKey != "",
		Registry:   registry,
		Logger:     logger,
		Timeout:    cfg.RequestTimeout,
		Tracing:    tracing.Provider(),
		Console:    pages,
		MCP:        cfg.MCP,
	})
	return p, nil
}

func (p *parts) close() error {
	p.core.Close()
	return p.redis.Close()
}

// serve runs the public listener, and concurrently what must outlive its drain, until
// the last request has ended: metrics can be read, hints arrive, this gateway
// counts among those that share the rates, and reports what they admit.
func (p *parts) serve(ctx context.Context, cfg Config, logger *slog.Logger, registry *prometheus.Registry) error {
	logger.InfoContext(ctx, "gateway listens", "version", build.This().Version, "address", cfg.Listener.Addr().String(), "metrics", cfg.MetricsListener.Addr().String(),
		"core", cfg.CoreURL, "redis", cfg.RedisURL != "", "admin", cfg.OperatorKey != "")
	background, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	// When either server fails, the other one drains.
	group, public := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer end()
		return httpserver.Run(public, httpserver.Options{
			Listener: cfg.Listener,
			Handler:  p.api.Handler(), //nolint:contextcheck // handlers take the request's context
			Conns:    p.conns,
			Notice:   cfg.DrainNotice,
			Grace:    cfg.Grace,
			OnDrain: func() {
				logger.InfoContext(ctx, "gateway drains", "notice", cfg.DrainNotice.String(), "grace", cfg.Grace.String())
				p.api.Drain()
			},
			OnClose: p.core.Drain,
			Logger:  logger,
		})
	})
	group.Go(func() error {
		if err := httpserver.Run(background, httpserver.Options{
			Listener: cfg.MetricsListener,
			Handler:  telemetry.AdminHandler(registry),
			Conns:    httpserver.Connections{Most: metricsConnections},
			Logger:   logger,
		}); background.Err() == nil {
			return err
		}
		return nil // an interrupted scrape or profile is no failed drain
	})
	group.Go(func() error {
		p.redis.Subscribe(background, admission.Subscriber{
			KeyRevoked: p.auth.Forget, LimitsChanged: p.auth.ForgetLimits, Missed: p.auth.ForgetAll, TypesChanged: p.types.Changed,
		})
		return nil
	})
	group.Go(func() error {
		p.limiter.Run(background)
		return nil
	})
	group.Go(func() error {
		p.limiter.Report(background, p.core.ReportUses)
		return nil
	})
	group.Go(func() error {
		p.announce(background, cfg.Listener, logger)
		return nil
	})
	err := group.Wait()
	logger.InfoContext(ctx, "gateway stopped", "clean", err == nil)
	return err
}

// announceTime bounds a report of this gateway, also the last one.
const announceTime = 3 * time.Second

// announce reports this gateway to core, for the operator, until ctx ends; then it takes the report back. What cannot be
// sent is dropped: the next report is soon enough.
func (p *parts) announce(ctx context.Context, l net.Listener, logger *slog.Logger) {
	begun := time.Now()
	report := hop.ProcessReport{ID: rand.Text(), Address: httpserver.HostPort(l), Version: build.This().Version}
	ticker := time.NewTicker(hop.ProcessReportEvery)
	defer ticker.Stop()
	for !report.Stops {
		p.report(ctx, report, logger)
		select {
		case <-ticker.C:
			report.AgeMS = time.Since(begun).Milliseconds()
		case <-ctx.Done():
			report.Stops = true
		}
	}
	p.report(context.WithoutCancel(ctx), report, logger)
}

func (p *parts) report(ctx context.Context, report hop.ProcessReport, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, announceTime)
	defer cancel()
	if err := p.core.ReportProcess(ctx, report); err != nil {
		logger.DebugContext(ctx, "this gateway was not reported to core", "error", err)
	}
}

func (cfg Config) logger() (*slog.Logger, error) {
	if cfg.Logger != nil {
		return cfg.Logger, nil
	}
	return telemetry.NewLogger(os.Stderr, cfg.LogFormat, cfg.LogLevel)
}

// listen opens the listeners that were not given, so that a port in use is an
// error before anything starts.
func (cfg Config) listen(ctx context.Context) (_ Config, err error) {
	var from net.ListenConfig
	if cfg.Listener == nil {
		if cfg.Listener, err = from.Listen(ctx, "tcp", cfg.Listen); err != nil {
			return cfg, fmt.Errorf("FORGEQUEUE_LISTEN: %w", err)
		}
	}
	if cfg.MetricsListener == nil {
		if cfg.MetricsListener, err = from.Listen(ctx, "tcp", cfg.MetricsListen); err != nil {
			return cfg, fmt.Errorf("FORGEQUEUE_METRICS_LISTEN: %w", err)
		}
	}
	return cfg, nil
}

func (cfg Config) closeListeners() error {
	var errs []error
	for _, listener := range []net.Listener{cfg.Listener, cfg.MetricsListener} {
		if listener != nil {
			errs = append(errs, listener.Close())
		}
	}
	return errors.Join(errs...)
}
