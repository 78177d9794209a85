package lanes

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

// ID names a lane.
type ID = int64

// Key identifies a lane: its tenant, its queue, the type of its jobs, and the tags that a worker
// must have. It can be a map's key.
type Key struct {
	Tenant tenant.ID
	Queue  string
	Type   string
	// tags is sorted and joined by commas, which no tag can hold.
	tags string
	// User is one that has a running cap of his own, else empty: his jobs are in a lane of their
	// own, so that claims do not scan them when the cap is reached.
	User string
	// Fair: the keys of its jobs take turns.
	Fair bool
	// Budgeted: its jobs have costs.
	Budgeted bool
}

// Of gives the lane of the same queue, type and tags for one user; "" for the shared one.
func (k Key) Of(user string) Key {
	k.User = user
	return k
}

// InQueue names the lane's queue.
func (k Key) InQueue() tenant.QueueKey { return tenant.QueueKey{Tenant: k.Tenant, Name: k.Queue} }

// NewKey makes a key; the order and repetition of tags do not matter.
func NewKey(id tenant.ID, queue, jobType string, tags []string) Key {
	sorted := slices.Compact(slices.Sorted(slices.Values(tags)))
	return Key{Tenant: id, Queue: queue, Type: jobType, tags: strings.Join(sorted, ",")}
}

// Tags are the tags a worker must have, sorted.
func (k Key) Tags() []string {
	if k.tags == "" {
		return []string{}
	}
	return strings.Split(k.tags, ",")
}

// ServedBy says whether all of the lane's tags are among those of a worker.
func (k Key) ServedBy(tags map[string]bool) bool {
	for rest := k.tags; rest != ""; {
		var tag string
		if tag, rest, _ = strings.Cut(rest, ","); !tags[tag] {
			return false
		}
	}
	return true
}

// Lane is a list of jobs, one per priority, of one Key.
type Lane struct {
	ID ID
	Key
}

// Row is a lane as stored.
type Row struct {
	Lane
	// RetiredAt is when it was found unused: no job may be stored in it; nil for one in use.
	RetiredAt *time.Time
}

const lanesAfterSQL = `
SELECT id, tenant_id, queue, type, tags, capped_user, fair, budgeted, retired_at FROM lanes WHERE id > @after
UNION ALL
SELECT id, tenant_id, queue, type, tags, capped_user, fair, budgeted, retired_at FROM lanes WHERE retired_at > @retired AND id <= @after
ORDER BY id`

// After gives every tenant's lanes with an id above after, and those that were retired after a
// time. Ids are drawn before they are committed, so the next call of a reader must start somewhat
// below the highest id it has seen; likewise with times.
func (s *Lanes) After(ctx context.Context, after ID, retired time.Time) ([]Row, error) {
	scan := func(row pgx.CollectableRow) (Row, error) {
		var lane Row
		var queue, jobType, user string
		var tags []string
		var owner tenant.ID
		var fair, budgeted bool
		err := row.Scan(&lane.ID, &owner, &queue, &jobType, &tags, &user, &fair, &budgeted, &lane.RetiredAt)
		lane.Key = NewKey(owner, queue, jobType, tags).Of(user)
		lane.Fair, lane.Budgeted = fair, budgeted
		return lane, err
	}
	lanes, err := store.Query(ctx, s.Store, scan, lanesAfterSQL, store.Args{"after": after, "retired": retired})
	if err != nil {
		return nil, fmt.Errorf("lanes: lanes: %w", store.NotApplied(err))
	}
	return lanes, nil
}
