package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/push"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// newPusher makes the executor of queues in push mode, and allows such queues in the server;
// neither without a key for their secrets.
func newPusher(cfg Config, log *slog.Logger, tracing *telemetry.Tracing, server *httpapi.Server, counted *metrics.Push) (run func(context.Context), err error) {
	if cfg.PushKey == "" {
		return func(context.Context) {}, nil
	}
	guard, err := outbound.ParseGuard(cfg.PushAllow)
	if err != nil {
		return nil, fmt.Errorf("core: FORGEQUEUE_PUSH_ALLOW: %w", err)
	}
	texts := []string{cfg.PushKey.Reveal()}
	if cfg.PushKeyPrevious != "" {
		texts = append(texts, cfg.PushKeyPrevious.Reveal())
	}
	keys, err := seal.New(texts...)
	if err != nil {
		return nil, fmt.Errorf("core: FORGEQUEUE_PUSH_SECRETS_KEY: %w", err)
	}
	server.Seals, server.Guard, server.Brokers = keys, guard, cfg.Brokers
	pushed, _ := server.Engine.Cached.Lanes.PushSettings(-1)
	if err := checkTargets(pushed, cfg.Brokers); err != nil {
		return nil, err
	}
	executor := push.New(push.Options{
		Engine: server.Engine, Store: server.Store, Keys: keys, Outbound: outbound.Options{Guard: guard}, Brokers: cfg.Brokers,
		Metrics: counted, Logger: log, Tracer: tracing.Tracer(), Grace: cfg.Grace, InFlight: cfg.PushInFlight,
	})
	server.Engine.Cached.Breakers.Show(executor.Breaker, executor.Probe)
	return func(ctx context.Context) {
		if err := executor.Run(ctx); err != nil {
			log.ErrorContext(ctx, "pushing has ended", "error", err)
		}
	}, nil
}

// checkTargets refuses to start where a stored queue needs a broker that this program was built without: its jobs
// would wait, and nobody would be told.
func checkTargets(queues []queues.Settings, brokers broker.Protocols) error {
	var problems []error
	for _, queue := range queues {
		if !api.IsBrokerURL(queue.Target.URL) {
			continue
		}
		target, wrong := api.BrokerURL(queue.Target.URL)
		if wrong != "" {
			continue // the executor logs it
		}
		if lacks := brokers.Lacks(target.URL); lacks != "" {
			problems = append(problems, fmt.Errorf("core: queue %q of tenant %s: %s", queue.Name, queue.Tenant, lacks))
		}
	}
	return errors.Join(problems...)
}
