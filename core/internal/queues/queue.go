package queues

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Errors that a caller may act on, besides those of package store.
var (
	// ErrTooMany: the tenant has reached its bound of queues.
	ErrTooMany = errors.New("queues: too many queues")
)

const putQueueSQL = `
INSERT INTO queues (tenant_id, name, visibility_timeout_ms, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve,
                    max_active, max_running, rate_per_second, types, keys, costs, windows, label, mode, push_url, push_timeout_ms, push_secret, push_settle, push_credentials,
                    breaker_calls, breaker_failure_ratio, breaker_open_ms, breaker_half_open, created_at, updated_at)
VALUES (@tenant_id, @name, @visibility, @max_attempts, @base, @cap, @jitter, @curve,
        @max_active, @max_running, @rate, @types::json, @keys::json, @costs::jsonb, @windows::json, @label, @mode, @url, @timeout, @secret, @settle, @credentials,
        @calls, @ratio, @open, @half_open, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE
SET visibility_timeout_ms = EXCLUDED.visibility_timeout_ms, max_attempts = EXCLUDED.max_attempts,
    retry_base_ms = EXCLUDED.retry_base_ms, retry_cap_ms = EXCLUDED.retry_cap_ms, retry_jitter = EXCLUDED.retry_jitter,
    retry_curve = EXCLUDED.retry_curve, max_active = EXCLUDED.max_active, max_running = EXCLUDED.max_running,
    rate_per_second = EXCLUDED.rate_per_second, types = EXCLUDED.types, keys = EXCLUDED.keys, costs = EXCLUDED.costs, windows = EXCLUDED.windows, label = EXCLUDED.label, mode = EXCLUDED.mode, push_url = EXCLUDED.push_url,
    push_timeout_ms = EXCLUDED.push_timeout_ms,
    -- an existing secret stays while the queue is in push mode, unless it is to be replaced
    push_secret = CASE WHEN @replace OR queues.push_secret IS NULL THEN EXCLUDED.push_secret
                       WHEN EXCLUDED.mode = 'push' THEN queues.push_secret END,
    push_settle = EXCLUDED.push_settle,
    -- those for another scheme, host or port are not sent to the new one
    push_credentials = CASE WHEN @new_credentials THEN EXCLUDED.push_credentials
                            WHEN substring(queues.push_url FROM '^[^/]+//[^/]+') = substring(EXCLUDED.push_url FROM '^[^/]+//[^/]+')
                            THEN queues.push_credentials END,
    breaker_calls = EXCLUDED.breaker_calls, breaker_failure_ratio = EXCLUDED.breaker_failure_ratio,
    breaker_open_ms = EXCLUDED.breaker_open_ms, breaker_half_open = EXCLUDED.breaker_half_open,
    updated_at = EXCLUDED.updated_at
RETURNING COALESCE(push_secret = @secret, false)`

// NewSecret is a sealed secret for the calls of a queue in push mode: for one without a secret, or
// with Replace for any.
type NewSecret struct {
	Sealed  []byte
	Replace bool
	// Credentials are for a broker, sealed; nil for none. They are stored with NewCredentials only, else those that are
	// there stay while scheme, host and port do.
	Credentials    []byte
	NewCredentials bool
}

// Put sets a queue's settings, and creates the queue if needed; fields not in the request are
// reset to the default. Existing jobs keep their settings.
func (s *Queues) Put(ctx context.Context, owner tenant.ID, name string, request api.QueueRequest) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	_, err := s.PutPush(ctx, owner, name, request, NewSecret{})
	return err
}

// PutPush does the same for a queue that may be in push mode, and says whether
// the new secret is now its secret.
func (s *Queues) PutPush(
	ctx context.Context, owner tenant.ID, name string, request api.QueueRequest, secret NewSecret,
) (taken bool, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	if _, err := timing.NewWindows(request.Windows); err != nil {
		return false, err
	}
	if err := s.checkQueueBound(ctx, owner, name); err != nil {
		return false, err
	}
	args := store.Args{
		"tenant_id": owner, "name": name, "visibility": request.VisibilityTimeoutMS, "max_attempts": request.MaxAttempts,
		"base": nil, "cap": nil, "jitter": nil, "curve": nil, "max_active": request.MaxActive, "max_running": request.MaxRunning,
		"rate": request.RatePerSecond, "types": string(store.JSON(request.Types.Known())), "keys": keysJSON(request.Keys), "costs": costsJSON(request.Costs), "windows": windowsJSON(request.Windows), "label": request.Label, "mode": api.ModePull, "url": nil, "timeout": nil, "secret": secret.Sealed, "replace": secret.Replace,
		"settle": nil, "credentials": secret.Credentials, "new_credentials": secret.NewCredentials,
		"calls": nil, "ratio": nil, "open": nil, "half_open": nil,
	}
	if push := request.Push; push != nil {
		args["mode"], args["url"], args["timeout"], args["settle"] = api.ModePush, push.URL, push.TimeoutMS, push.Settle
		if breaker := push.Breaker; breaker != nil {
			args["calls"], args["ratio"] = breaker.Calls, breaker.FailureRatio
			args["open"], args["half_open"] = breaker.OpenMS, breaker.HalfOpen
		}
	}
	if retry := request.Retry; retry != nil {
		args["base"], args["cap"], args["jitter"], args["curve"] = retry.BaseMS, retry.CapMS, retry.Jitter, retry.Curve
	}
	scope := store.Args{"tenant_id": &owner, "queue": &name, "plan": nil}
	err = s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		rows, err := caps.ChangeLimitsIn(ctx, tx, pgx.RowTo[bool], putQueueSQL, args, scope, capsAddedByQueue(owner, name, request),
			queueEvent(owner, name, request, secret))
		if err != nil {
			return err
		}
		taken = rows[0]
		_, err = tx.Exec(ctx, checkKeysSQL, store.Args{"tenant_id": owner, "queue": name})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("queues: settings: %w", err)
	}
	s.Gates.Appended()
	return taken, nil
}

// checkKeysSQL has the keys checked with jobs at their gates: more of them may now pass.
const checkKeysSQL = `
INSERT INTO key_checks (tenant_id, queue, keys)
SELECT @tenant_id, @queue, array_agg(key) FROM (
  SELECT key, row_number() OVER () / 500 AS part FROM (
    SELECT DISTINCT key FROM jobs WHERE key IS NOT NULL AND state = 'queued' AND ready_at IS NULL AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND queue = @queue) AS k) AS parts
GROUP BY part`

// windowsJSON is nil for none.
func windowsJSON(windows []api.Window) *string {
	if len(windows) == 0 {
		return nil
	}
	text := string(store.JSON(windows))
	return &text
}

// keysJSON is nil for the defaults.
func keysJSON(request *api.KeySettingsRequest) *string {
	settings := request.Settings()
	if settings == nil {
		return nil
	}
	text := string(store.JSON(settings))
	return &text
}

// costsJSON is nil for nothing.
func costsJSON(costs api.Amounts) *string {
	if len(costs) == 0 {
		return nil
	}
	text := string(store.JSON(costs))
	return &text
}

const resealSQL = `
UPDATE queues
SET push_secret = CASE WHEN push_secret = @from THEN @to ELSE push_secret END,
    push_credentials = CASE WHEN push_credentials = @from THEN @to ELSE push_credentials END,
    updated_at = statement_timestamp()
WHERE tenant_id = @tenant_id AND name = @name AND (push_secret = @from OR push_credentials = @from)
  AND ` + store.ServedSQL

// ResealSecret replaces a queue's secret, or its credentials for a broker, by the same one, sealed under a new key;
// one that was changed since stays.
func (s *Queues) ResealSecret(ctx context.Context, owner tenant.ID, name string, from, to []byte) error {
	args := store.Args{"tenant_id": owner, "name": name, "from": from, "to": to}
	if err := store.Exec(ctx, s.Store, resealSQL, args); err != nil {
		return fmt.Errorf("queues: settings: %w", err)
	}
	return nil
}

// queueEvent is the audit event of a queue. It names each setting, so that a new secret setting is
// not included by itself.
func queueEvent(owner tenant.ID, name string, request api.QueueRequest, secret NewSecret) audit.Event {
	detail := map[string]any{
		"visibility_timeout_ms": request.VisibilityTimeoutMS, "max_attempts": request.MaxAttempts, "retry": request.Retry,
		"max_active": request.MaxActive, "max_running": request.MaxRunning, "rate_per_second": request.RatePerSecond,
		"types": request.Types.Known(), "keys": request.Keys.Settings(), "costs": request.Costs, "windows": request.Windows, "label": request.Label,
	}
	if push := request.Push; push != nil {
		detail["push"] = map[string]any{
			"url": push.URL, "timeout_ms": push.TimeoutMS, "settle": push.Settle, "breaker": push.Breaker,
			"secret_set": secret.Replace, "credentials_set": secret.NewCredentials,
		}
	}
	return audit.Event{Tenant: &owner, Action: api.AuditQueuePut, Object: name, Detail: detail}
}

const queueModeSQL = `SELECT mode FROM queues WHERE tenant_id = @tenant_id AND name = @name AND ` + lanes.QueueThere

// Mode gives the mode of a queue, and ErrNotFound for one that is not there. It counts no jobs.
func (s *Queues) Mode(ctx context.Context, owner tenant.ID, name string) (string, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	modes, err := store.Query(ctx, s.Store, pgx.RowTo[string], queueModeSQL, store.Args{"tenant_id": owner, "name": name})
	if err != nil {
		return "", fmt.Errorf("queues: mode: %w", store.NotApplied(err))
	}
	if len(modes) == 0 {
		return "", store.ErrNotFound
	}
	return modes[0], nil
}

const pauseQueueSQL = `
INSERT INTO queues (tenant_id, name, paused, created_at, updated_at)
VALUES (@tenant_id, @name, @paused, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE SET paused = EXCLUDED.paused, updated_at = EXCLUDED.updated_at`

// Pause stops or resumes the claims from a queue. A repeat changes nothing.
func (s *Queues) Pause(ctx context.Context, owner tenant.ID, name string, paused bool) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	if err := s.checkQueueBound(ctx, owner, name); err != nil {
		return err
	}
	action := api.AuditQueueResume
	if paused {
		action = api.AuditQueuePause
	}
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	args := store.Args{"tenant_id": owner, "name": name, "paused": paused}
	_, err := audit.Recorded(ctx, s.Store, owner, noRow, pauseQueueSQL, args, func([]struct{}) *audit.Event {
		return &audit.Event{Tenant: &owner, Action: action, Object: name}
	})
	if err != nil {
		return fmt.Errorf("queues: settings: %w", err)
	}
	return nil
}

const probeQueueSQL = `
UPDATE queues SET probes = probes + 1, updated_at = statement_timestamp()
WHERE tenant_id = @tenant_id AND name = @name AND mode = 'push' AND ` + lanes.QueueThere + `
RETURNING probes`

// Probe notes that the destination of a queue in push mode is to be tried before its breaker's
// time, and gives how often that was asked for. done is its audit event. ErrNotFound for a queue that is
// not there, or not in push mode.
func (s *Queues) Probe(ctx context.Context, owner tenant.ID, name string, done audit.Event) (probes int64, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{"tenant_id": owner, "name": name}
	rows, err := audit.Recorded(ctx, s.Store, owner, pgx.RowTo[int64], probeQueueSQL, args, func(rows []int64) *audit.Event {
		if len(rows) == 0 {
			return nil
		}
		return &done
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("queues: probe: %w", err)
	case len(rows) == 0:
		return 0, store.ErrNotFound
	}
	return rows[0], nil
}

const visibilityLimitSQL = `
SELECT p.visibility_timeout_ms_max FROM tenants t JOIN plans p ON p.name = t.plan WHERE t.id = @id`

// VisibilityLimit is the longest visibility timeout, in milliseconds, that the
// tenant's plan allows; nil for none.
func (s *Queues) VisibilityLimit(ctx context.Context, owner tenant.ID) (*int64, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	limits, err := store.Query(ctx, s.Store, pgx.RowTo[*int64], visibilityLimitSQL, store.Args{"id": owner})
	if err != nil {
		return nil, fmt.Errorf("queues: plan: %w", store.NotApplied(err))
	}
	if len(limits) == 0 {
		return nil, nil //nolint:nilnil // no plan, no limit
	}
	return limits[0], nil
}

// queueBoundSQL is false where a queue would exceed the tenant's bound.
const queueBoundSQL = `
SELECT EXISTS (SELECT FROM queues WHERE tenant_id = @tenant_id AND name = @name AND ` + lanes.QueueThere + `)
    OR (SELECT count(*) FROM queues WHERE tenant_id = @tenant_id AND ` + lanes.QueueThere + `) < @most`

// checkQueueBound refuses, with ErrTooMany, a new queue above the bound. Two concurrent calls
// may both be the last.
func (s *Queues) checkQueueBound(ctx context.Context, owner tenant.ID, name string) error {
	below, err := store.Query(ctx, s.Store, pgx.RowTo[bool], queueBoundSQL, store.Args{"tenant_id": owner, "name": name, "most": lanes.MaxQueues})
	if err != nil {
		return fmt.Errorf("queues: settings: %w", store.NotApplied(err))
	}
	if !below[0] {
		return ErrTooMany
	}
	return nil
}
