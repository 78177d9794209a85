package gate

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Limit is how a queue limits jobs with the same key; the column gate of a job.
type Limit int16

// The limits.
const (
	// None: as many run at once as there are workers for.
	None Limit = iota
	// Capped: at most so many run at once.
	Capped
	// Ordered: one after the other, in the order in which they were accepted.
	Ordered
)

// Gate has the statements.
type Gate struct {
	*store.Store
	heads    heads[listKey]
	places   heads[place]
	appended atomic.Pointer[func()]
}

// New makes them.
func New(s *store.Store) *Gate { return &Gate{Store: s, places: heads[place]{lookback: lineLookback}} }

// OnCheck sets what is called after each commit that has appended checks. It must not block.
func (g *Gate) OnCheck(call func()) { g.appended.Store(&call) }

// Appended says that a commit has appended checks.
func (g *Gate) Appended() {
	if call := g.appended.Load(); call != nil {
		(*call)()
	}
}

// Key is a key of a queue.
type Key struct {
	Tenant     tenant.ID
	Queue, Key string
}

// Compare orders keys.
func (k Key) Compare(other Key) int {
	if order := slices.Compare(k.Tenant[:], other.Tenant[:]); order != 0 {
		return order
	}
	return slices.Compare([]string{k.Queue, k.Key}, []string{other.Queue, other.Key})
}

const appendSQL = `
INSERT INTO key_checks (tenant_id, queue, keys)
SELECT tenant_id, queue, array_agg(key) FROM unnest(@tenants::uuid[], @queues::text[], @keys::text[]) AS c(tenant_id, queue, key)
GROUP BY tenant_id, queue`

// Append queues the statement that appends checks, each key once.
func Append(batch *pgx.Batch, keys []Key) {
	if len(keys) == 0 {
		return
	}
	slices.SortFunc(keys, Key.Compare)
	keys = slices.Compact(keys)
	tenants, queues, names := make([]uuid.UUID, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, key := range keys {
		tenants[i], queues[i], names[i] = key.Tenant, key.Queue, key.Key
	}
	batch.Queue(appendSQL, store.Args{"tenants": tenants, "queues": queues, "keys": names})
}

// WaitingTenants lists the tenants that have checks.
func (g *Gate) WaitingTenants(ctx context.Context) ([]tenant.ID, error) {
	tenants, err := store.WaitingTenants(ctx, g.Store, "key_checks")
	if err != nil {
		return nil, fmt.Errorf("gate: waiting tenants: %w", err)
	}
	return tenants, nil
}

// sweepSQL appends a check for keys with jobs at their gate, after a place, in the order of the index.
const sweepSQL = `
WITH RECURSIVE keys AS (
  (SELECT tenant_id, queue, key, 1 AS n FROM jobs
   WHERE ` + anyGated + ` AND (uuid_send(tenant_id), queue, key) > (uuid_send(@tenant::uuid), @queue, @key)
   ORDER BY uuid_send(tenant_id), queue, key LIMIT 1)
  UNION ALL
  SELECT next.tenant_id, next.queue, next.key, keys.n + 1
  FROM keys CROSS JOIN LATERAL (
    SELECT tenant_id, queue, key FROM jobs
    WHERE ` + anyGated + ` AND (uuid_send(tenant_id), queue, key) > (uuid_send(keys.tenant_id), keys.queue, keys.key)
    ORDER BY uuid_send(tenant_id), queue, key LIMIT 1) AS next
  WHERE keys.n < @most::integer
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys)
  SELECT tenant_id, queue, array_agg(key) FROM keys WHERE tenant_id <> ALL(` + store.MovingSQL + `) GROUP BY tenant_id, queue
)
SELECT tenant_id, queue, key FROM keys`

// Sweep has up to most keys checked again that have jobs at their gate, after a key and in order, and gives where to continue:
// the zero key at the end. It finds what a change of settings left behind.
func (g *Gate) Sweep(ctx context.Context, after Key, most int) (Key, error) {
	scan := func(row pgx.CollectableRow) (found Key, err error) {
		return found, row.Scan(&found.Tenant, &found.Queue, &found.Key)
	}
	args := store.Args{"tenant": after.Tenant, "queue": after.Queue, "key": after.Key, "most": most}
	keys, err := store.Query(ctx, g.Store, scan, sweepSQL, args)
	if err != nil {
		return after, fmt.Errorf("gate: sweep: %w", store.NotApplied(err))
	}
	if len(keys) > 0 {
		g.Appended()
	}
	if len(keys) < most {
		return Key{}, nil
	}
	return keys[len(keys)-1], nil
}

// roomSQL gives for each key how many more of its jobs may pass its gate: none while others wait there, or a dead letter may
// holds it. cap is null for keys in order, of which one is past the gate, or waits for a retry.
const roomSQL = `
SELECT (asked.place - 1)::integer AS place,
  CASE WHEN ` + hasAtGate + ` THEN 0
       WHEN asked.cap IS NOT NULL THEN GREATEST(asked.cap - (SELECT count(*) FROM (SELECT ` + pastGate + ` LIMIT asked.cap) AS c), 0)
       WHEN ` + hasInOrder + ` OR ` + hasPastGate + ` THEN 0
       WHEN asked.hold AND ` + hasDead + ` THEN 0
       ELSE 1 END AS jobs
FROM unnest(@tenants::uuid[], @queues::text[], @keys::text[], @caps::bigint[], @holds::boolean[]) WITH ORDINALITY AS asked(tenant_id, queue, key, cap, hold, place)`

// Asked is a key with its limit.
type Asked struct {
	Key
	// MaxRunning is the cap, 0 for keys in order; Hold says that a dead letter holds the key.
	MaxRunning int64
	Hold       bool
}

// QueueRoom queues the statement that fills in how many more jobs of each key may pass its gate. It belongs after QueueLock.
func QueueRoom(batch *pgx.Batch, keys []Asked, room map[Key]int64) {
	tenants, queues, names := make([]uuid.UUID, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	caps, holds := make([]*int64, len(keys)), make([]bool, len(keys))
	for i, key := range keys {
		tenants[i], queues[i], names[i], holds[i] = key.Tenant, key.Queue, key.Key.Key, key.Hold
		if key.MaxRunning > 0 {
			caps[i] = &keys[i].MaxRunning
		}
	}
	batch.Queue(roomSQL, store.Args{"tenants": tenants, "queues": queues, "keys": names, "caps": caps, "holds": holds}).Query(func(rows pgx.Rows) error {
		var place int32
		var jobs int64
		_, err := pgx.ForEachRow(rows, []any{&place, &jobs}, func() error {
			room[keys[place].Key] = jobs
			return nil
		})
		return err
	})
}
