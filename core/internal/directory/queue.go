package directory

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const putQueueSQL = `
INSERT INTO queues (tenant_id, name, visibility_timeout_ms, max_attempts, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve,
                    max_active, max_running, rate_per_second, types, mode, push_url, push_timeout_ms, push_secret, push_settle, push_credentials,
                    breaker_calls, breaker_failure_ratio, breaker_open_ms, breaker_half_open, created_at, updated_at)
VALUES (@tenant_id, @name, @visibility, @max_attempts, @base, @cap, @jitter, @curve,
        @max_active, @max_running, @rate, @types::json, @mode, @url, @timeout, @secret, @settle, @credentials,
        @calls, @ratio, @open, @half_open, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE
SET visibility_timeout_ms = EXCLUDED.visibility_timeout_ms, max_attempts = EXCLUDED.max_attempts,
    retry_base_ms = EXCLUDED.retry_base_ms, retry_cap_ms = EXCLUDED.retry_cap_ms, retry_jitter = EXCLUDED.retry_jitter,
    retry_curve = EXCLUDED.retry_curve, max_active = EXCLUDED.max_active, max_running = EXCLUDED.max_running,
    rate_per_second = EXCLUDED.rate_per_second, types = EXCLUDED.types, mode = EXCLUDED.mode, push_url = EXCLUDED.push_url,
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

// PutQueue sets a queue's settings, and creates the queue if needed; fields not in the request are
// reset to the default. Existing jobs keep their settings.
func (s *Directory) PutQueue(ctx context.Context, owner tenant.ID, name string, request api.QueueRequest) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	_, err := s.PutPushQueue(ctx, owner, name, request, NewSecret{})
	return err
}

// PutPushQueue does the same for a queue that may be in push mode, and says whether
// the new secret is now its secret.
func (s *Directory) PutPushQueue(
	ctx context.Context, owner tenant.ID, name string, request api.QueueRequest, secret NewSecret,
) (taken bool, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	if err := s.checkQueueBound(ctx, owner, name); err != nil {
		return false, err
	}
	args := store.Args{
		"tenant_id": owner, "name": name, "visibility": request.VisibilityTimeoutMS, "max_attempts": request.MaxAttempts,
		"base": nil, "cap": nil, "jitter": nil, "curve": nil, "max_active": request.MaxActive, "max_running": request.MaxRunning,
		"rate": request.RatePerSecond, "types": string(store.JSON(request.Types.Known())), "mode": api.ModePull, "url": nil, "timeout": nil, "secret": secret.Sealed, "replace": secret.Replace,
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
	rows, err := changeLimits(ctx, s, pgx.RowTo[bool], putQueueSQL, args, scope, capsAddedByQueue(owner, name, request),
		queueEvent(owner, name, request, secret))
	if err != nil {
		return false, fmt.Errorf("directory: settings: %w", err)
	}
	return rows[0], nil
}

const resealSQL = `
UPDATE queues
SET push_secret = CASE WHEN push_secret = @from THEN @to ELSE push_secret END,
    push_credentials = CASE WHEN push_credentials = @from THEN @to ELSE push_credentials END,
    updated_at = statement_timestamp()
WHERE tenant_id = @tenant_id AND name = @name AND (push_secret = @from OR push_credentials = @from)`

// ResealSecret replaces a queue's secret, or its credentials for a broker, by the same one, sealed under a new key;
// one that was changed since stays.
func (s *Directory) ResealSecret(ctx context.Context, owner tenant.ID, name string, from, to []byte) error {
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	args := store.Args{"tenant_id": owner, "name": name, "from": from, "to": to}
	if _, err := store.Query(ctx, s.Store, noRow, resealSQL, args); err != nil {
		return fmt.Errorf("directory: settings: %w", err)
	}
	return nil
}

// queueEvent is the audit event of a queue. It names each setting, so that a new secret setting is
// not included by itself.
func queueEvent(owner tenant.ID, name string, request api.QueueRequest, secret NewSecret) audit.Event {
	detail := map[string]any{
		"visibility_timeout_ms": request.VisibilityTimeoutMS, "max_attempts": request.MaxAttempts, "retry": request.Retry,
		"max_active": request.MaxActive, "max_running": request.MaxRunning, "rate_per_second": request.RatePerSecond,
		"types": request.Types.Known(),
	}
	if push := request.Push; push != nil {
		detail["push"] = map[string]any{
			"url": push.URL, "timeout_ms": push.TimeoutMS, "settle": push.Settle, "breaker": push.Breaker,
			"secret_set": secret.Replace, "credentials_set": secret.NewCredentials,
		}
	}
	return audit.Event{Tenant: &owner, Action: api.AuditQueuePut, Object: name, Detail: detail}
}

const pauseQueueSQL = `
INSERT INTO queues (tenant_id, name, paused, created_at, updated_at)
VALUES (@tenant_id, @name, @paused, statement_timestamp(), statement_timestamp())
ON CONFLICT (tenant_id, name) DO UPDATE SET paused = EXCLUDED.paused, updated_at = EXCLUDED.updated_at`

// PauseQueue stops or resumes the claims from a queue. A repeat changes nothing.
func (s *Directory) PauseQueue(ctx context.Context, owner tenant.ID, name string, paused bool) error {
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
	_, err := audit.Recorded(ctx, s.Store, noRow, pauseQueueSQL, args, func([]struct{}) *audit.Event {
		return &audit.Event{Tenant: &owner, Action: action, Object: name}
	})
	if err != nil {
		return fmt.Errorf("directory: settings: %w", err)
	}
	return nil
}

const probeQueueSQL = `
UPDATE queues SET probes = probes + 1, updated_at = statement_timestamp()
WHERE tenant_id = @tenant_id AND name = @name AND mode = 'push' AND ` + queueThere + `
RETURNING probes`

// ProbeQueue notes that the destination of a queue in push mode is to be tried before its breaker's
// time, and gives how often that was asked for. done is its audit event. ErrNotFound for a queue that is
// not there, or not in push mode.
func (s *Directory) ProbeQueue(ctx context.Context, owner tenant.ID, name string, done audit.Event) (probes int64, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{"tenant_id": owner, "name": name}
	rows, err := audit.Recorded(ctx, s.Store, pgx.RowTo[int64], probeQueueSQL, args, func(rows []int64) *audit.Event {
		if len(rows) == 0 {
			return nil
		}
		return &done
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("directory: probe: %w", err)
	case len(rows) == 0:
		return 0, store.ErrNotFound
	}
	return rows[0], nil
}

const visibilityLimitSQL = `
SELECT p.visibility_timeout_ms_max FROM tenants t JOIN plans p ON p.name = t.plan WHERE t.id = @id`

// VisibilityLimit is the longest visibility timeout, in milliseconds, that the
// tenant's plan allows; nil for none.
func (s *Directory) VisibilityLimit(ctx context.Context, owner tenant.ID) (*int64, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	limits, err := store.Query(ctx, s.Store, pgx.RowTo[*int64], visibilityLimitSQL, store.Args{"id": owner})
	if err != nil {
		return nil, fmt.Errorf("directory: plan: %w", store.NothingChanged(err))
	}
	if len(limits) == 0 {
		return nil, nil //nolint:nilnil // no plan, no limit
	}
	return limits[0], nil
}

const queuesOfSQL = `
SELECT ` + settingsColumns + `
FROM queues
WHERE tenant_id = @tenant_id AND name > @after AND (@only::text IS NULL OR name = @only) AND left(name, 1) <> '_' AND ` + queueThere + `
ORDER BY name
LIMIT @size`

// depthsSQL counts the jobs in the lanes of queues, in bounded index scans: each count stops at the
// limit. The running jobs of all queues are scanned together, because they are bounded by what
// workers can hold. The workers that serve any of the queues are in the first row.
const depthsSQL = `
WITH lanes_of AS MATERIALIZED (
  SELECT queue, array_agg(id) AS ids FROM (
    SELECT queue, id FROM typed_lanes WHERE tenant_id = @tenant_id AND queue = ANY(@names::text[])
    UNION ALL
    SELECT queue, id FROM lanes WHERE tenant_id = @tenant_id AND queue = ANY(@names::text[])) AS every -- those of the version before
  GROUP BY queue),
running AS MATERIALIZED (
  SELECT lane_id, count(*) AS jobs FROM jobs
  WHERE state = 'running' AND lane_id = ANY(ARRAY(SELECT unnest(ids) FROM lanes_of)) GROUP BY lane_id),
serving AS (
  SELECT queues, types, tags, count(*) AS workers FROM workers
  WHERE owner IN (@tenant_id, @platform) AND status = 'ACTIVE' AND queues && @names::text[]
  GROUP BY queues, types, tags
  ORDER BY queues, types, tags
  LIMIT 10000)
SELECT
  (SELECT count(*) FROM (SELECT FROM unnest(q.lanes) l(id) JOIN LATERAL
     (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled') AND state = 'blocked' AND lane_id = l.id LIMIT @most) j ON true LIMIT @most) c) AS blocked,
  (SELECT count(*) FROM (SELECT FROM unnest(q.lanes) l(id) JOIN LATERAL
     (SELECT FROM jobs WHERE state IN ('blocked', 'scheduled') AND state = 'scheduled' AND lane_id = l.id LIMIT @most) j ON true LIMIT @most) c) AS scheduled,
  (SELECT count(*) FROM (SELECT FROM unnest(q.lanes) l(id) JOIN LATERAL
     (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id LIMIT @most) j ON true LIMIT @most) c) AS queued,
  (SELECT count(*) FROM (SELECT FROM unnest(q.lanes) l(id) JOIN LATERAL
     (SELECT FROM jobs WHERE state = 'queued' AND lane_id = l.id AND priority >= @priority LIMIT @most) j ON true LIMIT @most) c) AS ahead,
  (SELECT LEAST(COALESCE(sum(r.jobs), 0), @most)::bigint FROM running r WHERE r.lane_id = ANY(q.lanes)) AS running,
  (SELECT count(*) FROM (SELECT FROM dead_letters WHERE tenant_id = @tenant_id AND queue = q.name LIMIT @most) c) AS dead_letter,
  (SELECT floor(extract(epoch FROM statement_timestamp() - min(j.ready_at)) * 1000)::bigint
   FROM unnest(q.lanes) l(id) CROSS JOIN generate_series(0, 9) AS p(priority) CROSS JOIN LATERAL
     (SELECT ready_at FROM jobs WHERE state = 'queued' AND lane_id = l.id AND priority = p.priority
      ORDER BY ready_at, id LIMIT 1) j) AS oldest_ms,
  (SELECT json_agg(json_build_object('type', t.type, 'tags', t.tags)) FROM unnest(q.lanes) l(id) JOIN typed_lanes t ON t.id = l.id
   WHERE EXISTS (SELECT FROM jobs j WHERE j.state = 'queued' AND j.lane_id = l.id)) AS ready,
  CASE WHEN q.n = 1 THEN
    (SELECT json_agg(json_build_object('queues', s.queues, 'types', s.types, 'tags', s.tags, 'workers', s.workers)) FROM serving s) END AS workers
FROM (SELECT u.name, lanes_of.ids AS lanes, u.n
      FROM unnest(@names::text[]) WITH ORDINALITY AS u(name, n) LEFT JOIN lanes_of ON lanes_of.queue = u.name) AS q
ORDER BY q.n`

func depthsArgs(owner tenant.ID, names ...string) store.Args {
	return store.Args{
		"tenant_id": owner, "platform": tenant.Platform, "names": names, "most": api.MaxDepthCount + 1, "priority": api.DefaultPriority,
	}
}

// Depths are a queue's counts; a value above api.MaxDepthCount means more.
type Depths struct {
	Blocked, Scheduled, Queued, Running, DeadLetter int64
	// Ahead are the queued jobs of the default priority or a higher one.
	Ahead    int64
	OldestMs *int64
	// Ready is what a worker has to take for the queue's claimable jobs.
	Ready []Demand
	// Workers are those of all the queues that were counted; the first of them has it.
	Workers []ActiveWorkers
}

// Demand is what a job asks of its worker.
type Demand struct {
	Type string   `json:"type"`
	Tags []string `json:"tags"`
}

// QueuesOf lists a tenant's queues by name, after one of them; only, where not empty, restricts it to one.
func (s *Directory) QueuesOf(ctx context.Context, owner tenant.ID, after, only string, size int) ([]QueueSettings, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	queues, err := store.Query(ctx, s.Store, scanSettings, queuesOfSQL, store.Args{
		"tenant_id": owner, "after": after, "only": null.Text(only), "size": size,
	})
	if err != nil {
		return nil, fmt.Errorf("directory: queues of a tenant: %w", store.NothingChanged(err))
	}
	return queues, nil
}

// CountDepths counts the jobs of a tenant's queues, and lists the active workers of the tenant and of the platform that
// serve any of them, at most ten thousand variants, in one statement. The answers are in the queues' order.
func (s *Directory) CountDepths(ctx context.Context, owner tenant.ID, names ...string) ([]Depths, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	counts, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Depths], depthsSQL, depthsArgs(owner, names...))
	if err != nil {
		return nil, fmt.Errorf("directory: depths: %w", store.NothingChanged(err))
	}
	return counts, nil
}

// Shown cuts counts at the limit and names the ones that were cut.
func (d Depths) Shown() (api.Depth, []string) {
	names := []string{}
	cut := func(name string, count int64) int64 {
		if count > api.MaxDepthCount {
			names = append(names, name)
			return api.MaxDepthCount
		}
		return count
	}
	// Not in the return statement: Go does not say whether names is read before or after the calls there, and
	// Go 1.26 then returns a list in this function's stack (golang/go#81612 and its like).
	shown := api.Depth{
		Blocked: cut("blocked", d.Blocked), Scheduled: cut("scheduled", d.Scheduled), Queued: cut("queued", d.Queued),
		Running: cut("running", d.Running), DeadLetter: cut("dead_letter", d.DeadLetter),
	}
	return shown, names
}

// QueueSettings are a queue's settings, with nil for defaults.
type QueueSettings struct {
	tenant.QueueKey
	Push              bool
	Paused            bool
	VisibilityTimeout *time.Duration
	MaxAttempts       *int
	RetryBase         *time.Duration
	RetryCap          *time.Duration
	RetryJitter       *float64
	RetryCurve        *string
	MaxActive         *int64
	MaxRunning        *int64
	// RatePerSecond is how many jobs of the queue may start in a second.
	RatePerSecond *float64
	// Types are the limits by type.
	Types api.TypeLimits
	// Target is where a queue in push mode sends its jobs; zero for the others.
	Target Target
	// Probes is how often its destination was to be tried before its breaker's time.
	Probes    int64
	UpdatedAt time.Time
	// Deleted: the queue is not there, and all settings are the defaults.
	Deleted bool
}

// InForce are the settings with the defaults filled in.
func (q QueueSettings) InForce() api.QueueSettings {
	retry := q.Retry()
	return api.QueueSettings{
		VisibilityTimeoutMS: null.Or(q.VisibilityTimeout, api.DefaultVisibilityTimeout).Milliseconds(),
		MaxAttempts:         null.Or(q.MaxAttempts, api.DefaultMaxAttempts),
		MaxActive:           q.MaxActive, MaxRunning: q.MaxRunning, RatePerSecond: q.RatePerSecond, Types: q.Types.Known(), Push: q.Target.shown(),
		Retry: api.Retry{
			BaseMS: retry.Base.Milliseconds(), CapMS: retry.Cap.Milliseconds(), Jitter: retry.Jitter, Curve: string(retry.Curve),
		},
	}
}

// Retry is the policy of jobs without one of their own.
func (q QueueSettings) Retry() job.Retry {
	retry := job.DefaultRetry()
	if q.RetryBase != nil {
		retry.Base = *q.RetryBase
	}
	if q.RetryCap != nil {
		retry.Cap = *q.RetryCap
	}
	if q.RetryJitter != nil {
		retry.Jitter = *q.RetryJitter
	}
	if q.RetryCurve != nil {
		retry.Curve = job.Curve(*q.RetryCurve)
	}
	return retry
}
