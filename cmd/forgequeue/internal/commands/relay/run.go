package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/outbox"
	"github.com/forgequeue/forgequeue/shared/server/httpserver"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
	"github.com/forgequeue/forgequeue/shared/wait"
)

func newRun(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "relay",
		Short: "Send the jobs that your own transactions have committed to an outbox in your database",
		Long: `Send the jobs of an outbox: rows that programs insert into a table of their own database (forgequeue_enqueue in SQL,
shared/outbox in Go), so that a job commits with their own rows or not at all. Each committed row is exactly one job.

Any number of relays may run at once. SIGTERM or Ctrl-C ends the batches in flight, which takes 8 s at most, and exits with 0; the batches of
one that is killed wait for --lease. While the server, or the database, does not answer, the relay waits for it.

The key needs the scope submit. All settings are also variables, such as FORGEQUEUE_RELAY_DATABASE_URL (a file's name in
FORGEQUEUE_RELAY_DATABASE_URL_FILE), FORGEQUEUE_RELAY_BATCH, FORGEQUEUE_RELAY_METRICS_LISTEN.`,
		Example: `  forgequeue relay migrate --database-url postgres://localhost/shop
  forgequeue relay --database-url postgres://localhost/shop
  forgequeue relay failed
  forgequeue relay retry --all`,
		Args: cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			settings, err := parse(a, s.Command)
			if err != nil {
				return err
			}
			return run(ctx, s, settings)
		}),
	}
	flags(command)
	return command
}

func run(ctx context.Context, s *cli.Session, settings Settings) error {
	logger, err := telemetry.NewLogger(s.Err, settings.LogFormat, settings.LogLevel)
	if err != nil {
		return cli.Environment(err)
	}
	table, err := outbox.Connect(ctx, settings.DatabaseURL.Reveal(), int32(min(settings.Senders, 100))+3) //nolint:gosec // 103 at most
	if err != nil {
		return cli.Environment(fmt.Errorf("%s: %w", databaseVariable, err))
	}
	defer table.Close()
	relay, err := outbox.NewRelay(outbox.Options{
		Table: table, Client: s.Client, Logger: logger, Batch: settings.Batch, Senders: settings.Senders,
		Poll: settings.Poll, Lease: settings.Lease, Retain: settings.Retain,
	})
	if err != nil {
		return cli.Environment(err)
	}
	var listener net.Listener
	if settings.MetricsListen != "" {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", settings.MetricsListen); ctx.Err() != nil {
			return nil
		} else if err != nil {
			return cli.Environment(fmt.Errorf("FORGEQUEUE_RELAY_METRICS_LISTEN: %w", err))
		}
	}
	logger.InfoContext(ctx, "relay starts", "server", s.Client.String(), "batch", settings.Batch, "senders", settings.Senders, "metrics", settings.MetricsListen)
	err = all(ctx, table, relay, listener, logger)
	if errors.Is(err, outbox.ErrNoSchema) {
		return cli.Environment(err)
	}
	logger.InfoContext(ctx, "relay has stopped", "sent", relay.Counts().Sent)
	return err
}

// all runs the relay, and beside it what tells of it, until ctx ends or one of them fails.
func all(ctx context.Context, table *outbox.Table, relay *outbox.Relay, listener net.Listener, logger *slog.Logger) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var mu sync.Mutex
	var failed error
	watch := &watcher{table: table, relay: relay, logger: logger}
	var group sync.WaitGroup
	start := func(part func(context.Context) error) {
		group.Go(func() {
			defer cancel()
			if err := part(ctx); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	start(relay.Run)
	start(watch.run)
	if listener != nil {
		registry := telemetry.NewRegistry()
		start(func(ctx context.Context) error {
			if err := watch.register(registry); err != nil {
				return errors.Join(err, listener.Close())
			}
			return httpserver.Run(ctx, httpserver.Options{
				Listener: listener, Handler: telemetry.AdminHandler(registry), Logger: logger, Conns: httpserver.Connections{Most: metricsConnections},
				Grace: metricsGrace,
			})
		})
	}
	group.Wait()
	return failed
}

// A scrape that is under way when the relay stops has metricsGrace to end.
const (
	metricsConnections = 16
	metricsGrace       = 5 * time.Second
)

// statsEvery is how old the numbers of the metrics get; reportEvery is a log line.
const (
	statsEvery  = 10 * time.Second
	reportEvery = 6 // of them
)

// run counts the outbox's rows from time to time, for the metrics and the log.
func (w *watcher) run(ctx context.Context) error {
	var last outbox.Counts
	for n := 0; ctx.Err() == nil; n++ {
		counting, cancel := context.WithTimeout(ctx, statsEvery)
		stats, err := w.table.Stats(counting)
		cancel()
		w.set(stats, err == nil)
		if n%reportEvery == reportEvery-1 && err == nil {
			now := w.relay.Counts()
			if stats != (outbox.Stats{}) || now != last {
				w.logger.InfoContext(ctx, "outbox", "waiting", stats.Waiting, "sending", stats.Sending, "failed", stats.Failed,
					"oldest_ms", stats.Oldest.Milliseconds(), "sent", now.Sent, "postponed", now.Postponed, "errors", now.Errors)
			}
			last = now
		}
		_ = wait.For(ctx, statsEvery)
	}
	return nil
}
