package directory

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// LaneID names a lane.
type LaneID = int64

// LaneKey identifies a lane: its tenant, its queue, the type of its jobs, and the tags that a worker
// must have. It can be a map's key.
type LaneKey struct {
	Tenant tenant.ID
	Queue  string
	Type   string
	// tags is sorted and joined by commas, which no tag can hold.
	tags string
	// User is one that has a running cap of his own, else empty: his jobs are in a lane of their
	// own, so that claims do not scan them when the cap is reached.
	User string
}

// Of gives the lane of the same queue, type and tags for one user; "" for the shared one.
func (k LaneKey) Of(user string) LaneKey {
	k.User = user
	return k
}

// InQueue names the lane's queue.
func (k LaneKey) InQueue() tenant.QueueKey { return tenant.QueueKey{Tenant: k.Tenant, Name: k.Queue} }

// NewLaneKey makes a key; the order and repetition of tags do not matter.
func NewLaneKey(id tenant.ID, queue, jobType string, tags []string) LaneKey {
	sorted := slices.Compact(slices.Sorted(slices.Values(tags)))
	return LaneKey{Tenant: id, Queue: queue, Type: jobType, tags: strings.Join(sorted, ",")}
}

// Tags are the tags a worker must have, sorted.
func (k LaneKey) Tags() []string {
	if k.tags == "" {
		return []string{}
	}
	return strings.Split(k.tags, ",")
}

// ServedBy says whether all of the lane's tags are among those of a worker.
func (k LaneKey) ServedBy(tags map[string]bool) bool {
	for rest := k.tags; rest != ""; {
		var tag string
		if tag, rest, _ = strings.Cut(rest, ","); !tags[tag] {
			return false
		}
	}
	return true
}

// Lane is a list of jobs, one per priority, of one LaneKey.
type Lane struct {
	ID LaneID
	LaneKey
}

// LaneRow is a lane as stored.
type LaneRow struct {
	Lane
	// RetiredAt is when it was found unused: no job may be stored in it; nil for one in use.
	RetiredAt *time.Time
}

const lanesAfterSQL = `
SELECT id, tenant_id, queue, type, tags, capped_user, retired_at FROM lanes WHERE id > @after
UNION ALL
SELECT id, tenant_id, queue, type, tags, capped_user, retired_at FROM lanes WHERE retired_at > @retired AND id <= @after
ORDER BY id`

// LanesAfter gives every tenant's lanes with an id above after, and those that were retired after a
// time. Ids are drawn before they are committed, so the next call of a reader must start somewhat
// below the highest id it has seen; likewise with times.
func (s *Directory) LanesAfter(ctx context.Context, after LaneID, retired time.Time) ([]LaneRow, error) {
	scan := func(row pgx.CollectableRow) (LaneRow, error) {
		var lane LaneRow
		var queue, jobType, user string
		var tags []string
		var owner tenant.ID
		err := row.Scan(&lane.ID, &owner, &queue, &jobType, &tags, &user, &lane.RetiredAt)
		lane.LaneKey = NewLaneKey(owner, queue, jobType, tags).Of(user)
		return lane, err
	}
	lanes, err := store.Query(ctx, s.Store, scan, lanesAfterSQL, store.Args{"after": after, "retired": retired})
	if err != nil {
		return nil, fmt.Errorf("directory: lanes: %w", store.NothingChanged(err))
	}
	return lanes, nil
}

const settingsColumns = `
       tenant_id, name, mode = 'push', paused, visibility_timeout_ms, max_attempts,
       retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, max_active, max_running, rate_per_second, types,
       push_url, push_timeout_ms, push_secret, push_settle, push_credentials, push_secret_previous, push_secret_previous_until, breaker_calls, breaker_failure_ratio, breaker_open_ms, breaker_half_open,
       probes, updated_at, NOT (` + queueThere + `)`

// scanSettings scans the settings, and the columns after them to more.
func scanSettings(row pgx.CollectableRow, more ...any) (QueueSettings, error) {
	var q QueueSettings
	var visibility, base, limit *int64
	target := targetRow{}
	err := row.Scan(append([]any{
		&q.Tenant, &q.Name, &q.Push, &q.Paused, &visibility, &q.MaxAttempts,
		&base, &limit, &q.RetryJitter, &q.RetryCurve, &q.MaxActive, &q.MaxRunning, &q.RatePerSecond, &q.Types,
		&target.url, &target.timeout, &target.secret, &target.settle, &target.credentials, &target.previous, &target.previousUntil, &target.calls, &target.ratio, &target.open, &target.halfOpen,
		&q.Probes, &q.UpdatedAt, &q.Deleted,
	}, more...)...)
	q.Target = target.target()
	q.VisibilityTimeout, q.RetryBase, q.RetryCap = milliseconds(visibility), milliseconds(base), milliseconds(limit)
	return q, err
}

const queuesSinceSQL = `
SELECT ` + settingsColumns + `
FROM queues WHERE updated_at > @since`

// QueuesSince gives every tenant's queues whose settings changed after since, or that were deleted.
func (s *Directory) QueuesSince(ctx context.Context, since time.Time) ([]QueueSettings, error) {
	scan := func(row pgx.CollectableRow) (QueueSettings, error) { return scanSettings(row) }
	queues, err := store.Query(ctx, s.Store, scan, queuesSinceSQL, store.Args{"since": since})
	if err != nil {
		return nil, fmt.Errorf("directory: queues: %w", store.NothingChanged(err))
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
