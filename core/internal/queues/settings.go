package queues

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
)

const settingsColumns = `
       tenant_id, name, mode = 'push', paused, visibility_timeout_ms, max_attempts,
       retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, max_active, max_running, rate_per_second, types, keys, costs, windows, label,
       push_url, push_timeout_ms, push_secret, push_settle, push_credentials, push_secret_previous, push_secret_previous_until, breaker_calls, breaker_failure_ratio, breaker_open_ms, breaker_half_open,
       probes, updated_at, NOT (` + lanes.QueueThere + `)`

// scanSettings scans the settings, and the columns after them to more.
func scanSettings(row pgx.CollectableRow, more ...any) (Settings, error) {
	var q Settings
	var visibility, base, limit *int64
	target := targetRow{}
	err := row.Scan(append([]any{
		&q.Tenant, &q.Name, &q.Push, &q.Paused, &visibility, &q.MaxAttempts,
		&base, &limit, &q.RetryJitter, &q.RetryCurve, &q.MaxActive, &q.MaxRunning, &q.RatePerSecond, &q.Types, &q.Keys, &q.Costs, &q.Windows, &q.Label,
		&target.url, &target.timeout, &target.secret, &target.settle, &target.credentials, &target.previous, &target.previousUntil, &target.calls, &target.ratio, &target.open, &target.halfOpen,
		&q.Probes, &q.UpdatedAt, &q.Deleted,
	}, more...)...)
	q.Target, q.windows = target.target(), timing.StoredWindows(q.Windows)
	q.VisibilityTimeout, q.RetryBase, q.RetryCap = milliseconds(visibility), milliseconds(base), milliseconds(limit)
	return q, err
}

const queuesSinceSQL = `
SELECT ` + settingsColumns + `
FROM queues WHERE updated_at > @since`

// Since gives every tenant's queues whose settings changed after since, or that were deleted.
func (s *Queues) Since(ctx context.Context, since time.Time) ([]Settings, error) {
	scan := func(row pgx.CollectableRow) (Settings, error) { return scanSettings(row) }
	queues, err := store.Query(ctx, s.Store, scan, queuesSinceSQL, store.Args{"since": since})
	if err != nil {
		return nil, fmt.Errorf("queues: queues: %w", store.NotApplied(err))
	}
	return queues, nil
}

func milliseconds(ms *int64) *time.Duration {
	if ms == nil {
		return nil
	}
	d := time.Duration(*ms) * time.Millisecond
	return &d
}

// Settings are a queue's settings, with nil for defaults.
type Settings struct {
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
	// Keys are how jobs with a key start; nil for the defaults.
	Keys *api.KeySettings
	// Costs are what a job that does not say it may use of budgets.
	Costs api.Amounts
	// Windows are when no job starts, and windows the same as they are asked.
	Windows []api.Window
	windows *timing.Windows
	// Label is what the queue belongs to.
	Label *string
	// Target is where a queue in push mode sends its jobs; zero for the others.
	Target Target
	// Probes is how often its destination was to be tried before its breaker's time.
	Probes    int64
	UpdatedAt time.Time
	// Deleted: the queue is not there, and all settings are the defaults.
	Deleted bool
}

// Window says whether an instant is in one of the queue's windows, and until when.
func (q Settings) Window(at time.Time) (until time.Time, in bool) {
	if until, in = q.windows.Until(at); !in {
		return time.Time{}, false
	}
	return until, true
}

// OpenSince is since when jobs of the queue could start, as far as is known: its settings changed then, as by a resume, or one of its
// windows ended.
func (q Settings) OpenSince(now time.Time) time.Time {
	if ended := q.windows.Ended(now, api.MaxThreshold); ended.After(q.UpdatedAt) {
		return ended
	}
	return q.UpdatedAt
}

// Stopped says that no job of the queue starts now: it is paused, or in one of its windows.
func (q Settings) Stopped() bool {
	if q.Paused || q.windows == nil {
		return q.Paused
	}
	_, in := q.windows.Until(time.Now())
	return in
}

// SameTarget says that neither where nor how a queue's jobs are pushed has changed.
func (q Settings) SameTarget(other *Settings) bool {
	one, two := &q.Target, &other.Target
	return q.Push == other.Push && q.UpdatedAt.Equal(other.UpdatedAt) && one.URL == two.URL && bytes.Equal(one.Secret, two.Secret) &&
		bytes.Equal(one.Previous, two.Previous) && bytes.Equal(one.Credentials, two.Credentials)
}

// InForce are the settings with the defaults filled in.
func (q Settings) InForce() api.QueueSettings {
	retry := q.Retry()
	return api.QueueSettings{
		VisibilityTimeoutMS: store.OrElse(q.VisibilityTimeout, api.DefaultVisibilityTimeout).Milliseconds(),
		MaxAttempts:         store.OrElse(q.MaxAttempts, api.DefaultMaxAttempts),
		MaxActive:           q.MaxActive, MaxRunning: q.MaxRunning, RatePerSecond: q.RatePerSecond, Types: q.Types.Known(), Keys: q.Keys.InForce(), Costs: q.Costs, Windows: store.EmptyIfNil(q.Windows), Push: q.Target.shown(), Label: q.Label,
		Retry: api.Retry{
			BaseMS: retry.Base.Milliseconds(), CapMS: retry.Cap.Milliseconds(), Jitter: retry.Jitter, Curve: string(retry.Curve),
		},
	}
}

// Retry is the policy of jobs without one of their own.
func (q Settings) Retry() job.Retry {
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
