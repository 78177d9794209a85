//go:build unix

package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/syncwriter"
	"github.com/forgequeue/forgequeue/cmd/supervisor"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/memory"
	"github.com/forgequeue/forgequeue/shared/server/seats"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const (
	// readyTime is how long the services may take to come up.
	readyTime = 3 * time.Minute
	// stopTime is how long PostgreSQL and Redis may take to stop.
	stopTime = time.Minute
	// grace is how long requests and samples in flight may take at shutdown.
	grace = 10 * time.Second
)

// Run starts everything and serves until ctx ends, then stops everything. It
// returns nil after a clean stop. An error of the machine or its settings is a
// *SettingError.
func Run(ctx context.Context, o Options) error {
	memory.TuneShare() // its services would each tune to a limit of their own, and have none here
	err := run(ctx, o)
	_, held := errors.AsType[*HeldError](err)
	_, missing := errors.AsType[*MissingPostgresError](err)
	_, server := errors.AsType[*supervisor.HeldError](err)
	if held || missing || server {
		return &SettingError{err}
	}
	return err
}

func run(ctx context.Context, o Options) error {
	if o.Data == "" {
		data, err := localup.DefaultData()
		if err != nil {
			return err
		}
		o.Data = data
	}
	f, err := openFolder(o.Data)
	if err != nil {
		return err
	}
	defer f.close()
	logFile, err := f.logFile()
	if err != nil {
		return &SettingError{fmt.Errorf("the log cannot be written: %w; choose another folder with --data-dir DIR", err)}
	}
	defer func() { _ = logFile.Close() }()
	// The file gets all records, standard error warnings and errors. The sample worker's
	// go to the file only: its failures are part of the samples.
	o.Err = syncwriter.New(o.Err) // the services' logs and up itself write to it
	file := slog.NewJSONHandler(logFile, &slog.HandlerOptions{Level: slog.LevelInfo})
	log := slog.New(slog.NewMultiHandler(file, withoutProbes{slog.NewTextHandler(o.Err, &slog.HandlerOptions{Level: slog.LevelWarn})}))
	o.sampleLog = slog.New(file)
	// Before anything is started: a port in use is the most frequent error.
	public, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return &SettingError{fmt.Errorf("the address %s cannot be used (%w); choose another one with --listen HOST:PORT", o.Listen, err)}
	}
	kept, err := f.loadCredentials()
	if err != nil {
		_ = public.Close()
		return err
	}
	held, err := openStores(ctx, f, log)
	if err != nil {
		_ = public.Close()
		return err
	}
	err = serve(ctx, o, f, &kept, held, public, log)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err = errors.Join(err, held.stop(stopping))
	if err == nil {
		_, _ = fmt.Fprintln(o.Err, "stopped; the data is in "+f.path)
	}
	return err
}

// serve runs the services on open stores until ctx ends or something breaks.
func serve(ctx context.Context, o Options, f *folder, kept *credentials, held *stores, public net.Listener, log *slog.Logger) error {
	listeners, err := openListeners(public)
	if err != nil {
		return err
	}
	core, gateway, err := configs(kept, held, listeners, log)
	core.Brokers, core.Tracing.Exporter, gateway.Tracing.Exporter = o.Brokers, o.Exporter, o.Exporter
	telemetry.TuneProcessors()
	core.Processors = seats.Processors()
	gateway.Processors = core.Processors
	if err != nil {
		err = &SettingError{err}
	} else {
		err = migrate(ctx, core, held)
	}
	if err != nil {
		listeners.close()
		return err
	}
	group := newRunGroup(ctx, log)
	// Stopped in the opposite order.
	group.start("core", func(ctx context.Context) error { return coreapp.Run(ctx, core) })
	group.start("gateway", func(ctx context.Context) error { return gatewayapp.Run(ctx, gateway) })

	unregister := func() {}
	defer func() { unregister() }()
	err = func() error {
		url := "http://" + listeners.gateway.Addr().String()
		if err := waitReady(group.ctx, url); err != nil {
			return err
		}
		fresh := kept.APIKey == "" // the folder has not seen an `up` that came this far
		if err := ensureKeys(group.ctx, url, f, kept, o.Err); err != nil {
			return err
		}
		kept.Gateway, kept.DatabaseURL, kept.RedisURL = url, held.ownDatabase(), held.ownRedis()
		if err := f.saveCredentials(*kept); err != nil {
			return err
		}
		if unregister, err = localup.Register(f.path); err != nil {
			log.Warn("commands without a key do not find this `up`", "error", err)
		}
		ready := newReady(url, kept, held, f, listeners)
		if err := ready.openConsole(group.ctx); err != nil {
			return err
		}
		if o.Demo {
			if err := startDemo(group, ready, fresh, o.sampleLog); err != nil {
				return err
			}
		}
		return announce(o, ready)
	}()
	if err == nil {
		select {
		case <-group.ctx.Done():
		case err = <-held.broken:
		}
	}
	if ctx.Err() != nil {
		err = nil // being stopped while starting is no failure
		_, _ = fmt.Fprintln(o.Err, "stopping: requests in flight end, then the stores close")
	}
	return errors.Join(err, group.stop())
}

// migrate brings the schema up to date. It is the first call of PostgreSQL, and so the one that finds a wrong
// DATABASE_URL.
func migrate(ctx context.Context, core coreapp.Config, held *stores) error {
	_, err := coreapp.Migrate(ctx, core)
	if err == nil || !held.databaseGiven || ctx.Err() != nil {
		return err
	}
	return &SettingError{fmt.Errorf("%w\n  Correct DATABASE_URL, or start its server; unset, up runs a PostgreSQL of its own", err)}
}

// addresses are the listeners of the services; only the gateway's is for clients.
type addresses struct {
	gateway, gatewayMetrics, core, coreMetrics net.Listener
}

func openListeners(public net.Listener) (*addresses, error) {
	a := &addresses{gateway: public}
	for _, listener := range []*net.Listener{&a.gatewayMetrics, &a.core, &a.coreMetrics} {
		opened, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			a.close()
			return nil, err
		}
		*listener = opened
	}
	return a, nil
}

func (a *addresses) close() {
	for _, listener := range []net.Listener{a.gateway, a.gatewayMetrics, a.core, a.coreMetrics} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// configs are the settings of both services, as each would read them from its
// environment. Those that `up` decides override it.
func configs(kept *credentials, held *stores, a *addresses, log *slog.Logger) (coreapp.Config, gatewayapp.Config, error) {
	settings := map[string]string{}
	for _, pair := range os.Environ() {
		name, value, _ := strings.Cut(pair, "=")
		settings[name] = value
	}
	decided := map[string]string{
		"DATABASE_URL": held.databaseURL, "REDIS_URL": held.redisURL,
		"FORGEQUEUE_CORE_URL":   "http://" + a.core.Addr().String(),
		"FORGEQUEUE_HOP_SECRET": kept.HopSecret, "FORGEQUEUE_KEY_SECRET": kept.KeySecret,
		"FORGEQUEUE_PUSH_SECRETS_KEY": kept.PushKey, "FORGEQUEUE_CONSOLE_SECRET": kept.Console,
		"FORGEQUEUE_OPERATOR_KEY": kept.OperatorKey, "FORGEQUEUE_GRACE": grace.String(),
	}
	for name := range decided {
		delete(settings, name+"_FILE")
	}
	maps.Copy(settings, decided)
	core, coreErr := coreapp.Parse(settings)
	gateway, gatewayErr := gatewayapp.Parse(settings)
	core.Listener, core.MetricsListener, core.Logger = a.core, a.coreMetrics, log.With("service", "core")
	gateway.Listener, gateway.MetricsListener, gateway.Logger = a.gateway, a.gatewayMetrics, log.With("service", "gateway")
	return core, gateway, errors.Join(coreErr, gatewayErr)
}
