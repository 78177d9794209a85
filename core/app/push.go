package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/operations"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/push"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// newPusher makes the executor of queues in push mode, and says where such queues may send;
// neither without a key for their secrets.
func newPusher(
	cfg Config, log *slog.Logger, tracing *telemetry.Tracing, made *engine.Engine, store *cell.Cell, counted *metrics.Push,
) (targets operations.Targets, run func(context.Context), err error) {
	if cfg.PushKey == "" {
		return targets, func(context.Context) {}, nil
	}
	guard, err := outbound.ParseGuard(cfg.PushAllow)
	if err != nil {
		return targets, nil, fmt.Errorf("core: FORGEQUEUE_PUSH_ALLOW: %w", err)
	}
	texts := []string{cfg.PushKey.Reveal()}
	if cfg.PushKeyPrevious != "" {
		texts = append(texts, cfg.PushKeyPrevious.Reveal())
	}
	keys, err := seal.New(texts...)
	if err != nil {
		return targets, nil, fmt.Errorf("core: FORGEQUEUE_PUSH_SECRETS_KEY: %w", err)
	}
	targets = operations.Targets{Seals: keys, Guard: guard, Brokers: cfg.Brokers}
	pushed, _ := made.Cached.Lanes.PushSettings(-1)
	if err := checkTargets(pushed, cfg.Brokers); err != nil {
		return targets, nil, err
	}
	executor := push.New(push.Options{
		Engine: made, Store: store, Keys: keys, Outbound: outbound.Options{Guard: guard}, Brokers: cfg.Brokers,
		Metrics: counted, Logger: log, Tracer: tracing.Tracer(), Grace: cfg.Grace, InFlight: cfg.PushInFlight,
	})
	made.Cached.Breakers.Show(executor.Breaker, executor.Probe)
	return targets, func(ctx context.Context) {
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
