package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/budget"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// checksPerPass, which counts keys, and passedPerKey bound one transaction.
	checksPerPass = 500
	passedPerKey  = 100
)

// checksSQL gives the keys of the first checks, and says of each whether it is a budget, or a job is at its gate.
const checksSQL = `
SELECT id, queue, key, queue = '' OR ` + hasAtGate + ` AS waits
FROM (
  SELECT id, tenant_id, queue, unnest(keys) AS key FROM (
    SELECT *, sum(cardinality(keys)) OVER (ORDER BY due_at, id) - cardinality(keys) AS before FROM (
      SELECT * FROM key_checks
      WHERE tenant_id = @tenant_id AND due_at <= statement_timestamp() AND tenant_id <> ALL(` + store.MovingSQL + `)
      ORDER BY due_at, id LIMIT @most) AS first) AS counted
  WHERE before < @most) AS asked`

const settingsSQL = `
SELECT name, keys FROM queues WHERE tenant_id = @tenant_id AND name = ANY(@queues::text[]) AND keys IS NOT NULL`

// limitSQL writes the limits of the queues, as they are now, to the jobs at the gates.
const limitSQL = `
UPDATE jobs SET gate = asked.gate | (jobs.gate & 4)
FROM unnest(@queues::text[], @keys::text[], @gates::smallint[]) AS asked(queue, key, gate)
WHERE (jobs.gate > 0 OR jobs.key IS NOT NULL AND jobs.state = 'queued' AND jobs.ready_at IS NULL) AND CASE WHEN jobs.key IS NOT NULL AND jobs.state = 'queued' AND jobs.ready_at IS NULL THEN true END AND uuid_send(jobs.tenant_id) = uuid_send(@tenant_id::uuid) AND jobs.queue = asked.queue AND jobs.key = asked.key
  AND jobs.gate < 8 AND jobs.gate & 3 <> asked.gate`

// anyGated are the jobs at all gates, by the index of the gates: its predicate, and then what they are, in a form by which no other
// index is found. Where there are few jobs another one is as cheap, and has to be read as a whole.
const anyGated = `(gate > 0 OR key IS NOT NULL AND state = 'queued' AND ready_at IS NULL) AND CASE WHEN key IS NOT NULL AND state = 'queued' AND ready_at IS NULL THEN true END`

const nextColumns = `id, lane_id, priority, key, key_weight, user_id, costs`

// The parts of the index jobs_gated for the key in asked, which no other index has (see decision 52): the jobs past its gate, of those with a limit, those at the gate, and
// those that have their place in its order, which waits for a job that is to be tried again, but not for one with parents.
const (
	keyInAsked = `uuid_send(tenant_id) = uuid_send(asked.tenant_id) AND queue = asked.queue AND key = asked.key AND CASE WHEN ready_at IS NULL AND gate < 8 THEN 1 ELSE 0 END = `
	pastGate   = `FROM jobs WHERE gate > 0 AND ` + keyInAsked + `0`
	atGate     = `FROM jobs WHERE ` + anyGated + ` AND ` + keyInAsked + `1`
	inOrder    = `FROM jobs WHERE gate & 2 = 2 AND gate > 0 AND state <> 'blocked' AND ` + keyInAsked + `1`
	// inLine are the jobs of the key that wait for a budget.
	inLine    = `FROM jobs WHERE gate > 0 AND gate >= 8 AND ` + keyInAsked + `0`
	gateOrder = `ORDER BY CASE WHEN gate & 2 = 2 THEN 0 ELSE priority END DESC, created_at, id`
	// dead are the dead letters of the key.
	dead = `FROM dead_letters AS dead WHERE dead.key IS NOT NULL AND dead.tenant_id = asked.tenant_id AND dead.queue = asked.queue AND dead.key = asked.key`
)

// Whether there is one. EXISTS would do, but PostgreSQL may make it a hash of the jobs at all gates, by whichever index has ready_at:
// all jobs that are ready are then read for a few keys.
const (
	hasAtGate   = `COALESCE((SELECT true ` + atGate + ` LIMIT 1), false)`
	hasPastGate = `COALESCE((SELECT true ` + pastGate + ` LIMIT 1), false)`
	hasInOrder  = `COALESCE((SELECT true ` + inOrder + ` LIMIT 1), false)`
	hasDead     = `COALESCE((SELECT true ` + dead + ` LIMIT 1), false)`
)

// nextSQL gives for each key the jobs that may pass its gate: by priority, then as they were accepted.
const nextSQL = `
SELECT (asked.place - 1)::integer AS place, lanes.fair, asked.queue, next.*
FROM (SELECT *, @tenant_id::uuid AS tenant_id FROM unnest(@queues::text[], @keys::text[], @caps::bigint[]) WITH ORDINALITY AS a(queue, key, cap, place)) AS asked
CROSS JOIN LATERAL (
  SELECT CASE WHEN asked.cap IS NULL THEN @most::bigint
              ELSE LEAST(@most::bigint, asked.cap - (SELECT count(*) FROM (SELECT ` + pastGate + ` LIMIT asked.cap) AS c)) END AS jobs
) AS room
CROSS JOIN LATERAL (
  SELECT ` + nextColumns + ` ` + atGate + ` ` + gateOrder + `
  LIMIT GREATEST(room.jobs, 0)
) AS next
JOIN lanes ON lanes.id = next.lane_id
ORDER BY asked.place, next.priority DESC`

// nextInOrderSQL gives for each key the first job that was accepted, where it is at the gate and none is past it. Those that
// wait for their parents are left out, those that wait for a retry are not. A dead letter holds the key where the queue says so.
const nextInOrderSQL = `
SELECT (asked.place - 1)::integer AS place, lanes.fair, asked.queue, first.id, first.lane_id, first.priority, first.key, first.key_weight, first.user_id, first.costs
FROM (SELECT *, @tenant_id::uuid AS tenant_id FROM unnest(@queues::text[], @keys::text[], @holds::boolean[]) WITH ORDINALITY AS a(queue, key, hold, place)) AS asked
CROSS JOIN LATERAL (
  SELECT ` + nextColumns + `, state, ready_at ` + inOrder + ` ` + gateOrder + ` LIMIT 1
) AS first
JOIN lanes ON lanes.id = first.lane_id
WHERE first.state = 'queued' AND first.ready_at IS NULL
  AND NOT ` + hasPastGate + `
  AND NOT (asked.hold AND ` + hasDead + `)
ORDER BY asked.place`

// asItWas holds for a job in the arrays that is as it was when it was read: it may have been changed since, and has a check then.
const asItWas = `id = ANY(@ids::uuid[]) AND state = 'queued' AND ready_at IS NULL
  AND (queue, key, priority, COALESCE(costs, '{}')) IN (
    SELECT (@queues::text[])[place], (@keys::text[])[place], (@priorities::smallint[])[place], (@costs::text[])[place]::jsonb
    FROM (SELECT width_bucket(jobs.id, @ids::uuid[]) AS place OFFSET 0) AS input)`

// readySQL gives jobs at the gate their turns; those of other lanes than fair ones the time.
const readySQL = `
UPDATE jobs SET ready_at = COALESCE((@turns::timestamptz[])[width_bucket(id, @ids::uuid[])], statement_timestamp()),
  gate = CASE WHEN costs IS NULL THEN gate ELSE gate & 3 | 4 END
WHERE ` + asItWas + `
RETURNING id, lane_id AS lane, priority, ready_at AS at`

const forgetSQL = `DELETE FROM key_checks WHERE id = ANY(@ids::bigint[])`

// check is a key of a row of key_checks.
type check struct {
	ID         int64
	Queue, Key string
	Waits      bool
}

type next struct {
	Place     int32
	Fair      bool
	Queue     string
	ID        uuid.UUID
	LaneID    lanes.ID
	Priority  int16
	Key       string
	KeyWeight *float64
	UserID    *string
	Costs     api.Amounts
}

// Passed is a job that can now be claimed.
type Passed struct {
	ID       uuid.UUID
	Lane     lanes.ID
	Priority int16
	At       time.Time
}

// Pass works off some of a tenant's checks in one transaction, and gives the jobs that passed their gates. worked says that
// there were checks.
func (g *Gate) Pass(ctx context.Context, owner tenant.ID) (passed []Passed, worked bool, err error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var checks []check
	err = g.InShortTx(ctx, func(batch *pgx.Batch) {
		caps.QueueLockWait(ctx, batch)
		g.QueueLock(batch, []tenant.ID{owner})
		batch.Queue(checksSQL, store.Args{"tenant_id": owner, "most": checksPerPass}).Query(func(rows pgx.Rows) (err error) {
			checks, err = pgx.CollectRows(rows, pgx.RowToStructByPos[check])
			return err
		})
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		passed, worked = nil, len(checks) > 0 // of the first try, see InTx
		if !worked {
			return nil, nil
		}
		step := step{gate: g, tx: tx, owner: owner, checks: map[int64]bool{}}
		for _, one := range checks {
			step.checks[one.ID] = true
		}
		checks = slices.DeleteFunc(checks, func(c check) bool { return !c.Waits })
		return step.work(ctx, checks, &passed)
	})
	if err != nil {
		return nil, false, fmt.Errorf("gate: pass: %w", err)
	}
	return passed, worked, nil
}

// QueueLock queues the statement that waits for the locks under which jobs past the gates are counted.
func (g *Gate) QueueLock(batch *pgx.Batch, owners []tenant.ID) {
	for _, key := range g.LockKeys(store.LockGate, owners) {
		batch.Queue(store.AdvisoryLockSQL, store.Args{"key": key})
	}
}

// step is one transaction of Pass.
type step struct {
	gate  *Gate
	tx    pgx.Tx
	owner tenant.ID
	// checks are the ids of those that are worked off.
	checks map[int64]bool
}

// asks are keys with their limits, as arrays.
type asks struct {
	queues, keys []string
	caps         []*int64
	holds        []bool
	gates        []int16
}

func (a *asks) add(queue, key string, limits api.KeySettings) {
	a.queues, a.keys = append(a.queues, queue), append(a.keys, key)
	a.caps, a.holds, a.gates = append(a.caps, limits.MaxRunning), append(a.holds, limits.OnDead == api.KeyHold), append(a.gates, int16(LimitOf(&limits)))
}

func (a *asks) args(owner tenant.ID) store.Args {
	return store.Args{"tenant_id": owner, "queues": a.queues, "keys": a.keys}
}

// LimitOf is the limit that settings make.
func LimitOf(settings *api.KeySettings) Limit {
	switch {
	case settings == nil:
		return None
	case settings.Order == api.KeyOrderFIFO:
		return Ordered
	case settings.MaxRunning != nil:
		return Capped
	}
	return None
}

func (s *step) work(ctx context.Context, checks []check, passed *[]Passed) (*pgx.Batch, error) {
	batch := &pgx.Batch{}
	if len(checks) == 0 {
		s.forget(batch)
		return batch, nil
	}
	settings, err := s.settings(ctx, checks)
	if err != nil {
		return nil, err
	}
	type queueKey struct{ queue, key string }
	seen := map[queueKey]bool{}
	var capped, ordered, all asks
	var budgets []budget.Ref
	for _, one := range checks {
		if seen[queueKey{one.Queue, one.Key}] {
			continue
		}
		seen[queueKey{one.Queue, one.Key}] = true
		if one.Queue == "" {
			budgets = append(budgets, budget.RefOf(s.owner, one.Key))
			continue
		}
		limits := settings[one.Queue]
		if one.Key == "" { // jobs with costs, and without a key
			limits = api.KeySettings{}
		}
		all.add(one.Queue, one.Key, limits)
		if LimitOf(&limits) == Ordered {
			ordered.add(one.Queue, one.Key, limits)
		} else {
			capped.add(one.Queue, one.Key, limits)
		}
	}
	args := all.args(s.owner)
	args["gates"] = all.gates
	if _, err := s.tx.Exec(ctx, limitSQL, args); err != nil {
		return nil, err
	}
	args = capped.args(s.owner)
	args["caps"], args["most"] = capped.caps, passedPerKey
	found, err := s.next(ctx, nextSQL, args)
	if err != nil {
		return nil, err
	}
	more := map[queueKey]bool{}
	counts := make([]int, len(capped.keys))
	for i := range found {
		place := found[i].Place
		if counts[place]++; counts[place] == passedPerKey {
			more[queueKey{capped.queues[place], capped.keys[place]}] = true
		}
	}
	args = ordered.args(s.owner)
	args["holds"] = ordered.holds
	inOrder, err := s.next(ctx, nextInOrderSQL, args)
	if err != nil {
		return nil, err
	}
	found = append(found, inOrder...)
	var throttled []*rated
	if found, throttled, err = s.throttle(ctx, batch, found, settings); err != nil {
		return nil, err
	}
	for _, r := range throttled { // it has a check for later
		delete(more, queueKey{r.queue, r.key})
	}
	for _, one := range checks {
		if more[queueKey{one.Queue, one.Key}] {
			delete(s.checks, one.ID)
		}
	}
	if found, err = s.pay(ctx, batch, found, budgets); err != nil {
		return nil, err
	}
	if len(found) > 0 {
		if err := s.pass(ctx, batch, found, passed); err != nil {
			return nil, err
		}
	}
	s.forget(batch)
	return batch, nil
}

// forget queues the statement that deletes the checks that are worked off.
func (s *step) forget(batch *pgx.Batch) {
	batch.Queue(forgetSQL, store.Args{"ids": slices.Collect(maps.Keys(s.checks))})
}

// settings are those of the queues of checks that have any.
func (s *step) settings(ctx context.Context, checks []check) (map[string]api.KeySettings, error) {
	var queues []string
	for _, one := range checks {
		queues = append(queues, one.Queue)
	}
	slices.Sort(queues)
	rows, err := s.tx.Query(ctx, settingsSQL, store.Args{"tenant_id": s.owner, "queues": slices.Compact(queues)})
	if err != nil {
		return nil, err
	}
	settings := map[string]api.KeySettings{}
	var name string
	var text []byte
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		var one api.KeySettings
		if err := json.Unmarshal(text, &one); err != nil {
			return fmt.Errorf("settings of the queue %s: %w", name, err)
		}
		settings[name] = one
		return nil
	})
	return settings, err
}

func (s *step) next(ctx context.Context, sql string, args store.Args) ([]next, error) {
	rows, err := s.tx.Query(ctx, sql, args)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[next])
}

// asRead are the arguments of asItWas; it sorts the jobs.
func asRead(found []next) store.Args {
	slices.SortFunc(found, func(a, b next) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	n := len(found)
	ids, queues, keys, priorities, costs := make([]uuid.UUID, n), make([]string, n), make([]string, n), make([]int16, n), make([]string, n)
	for i := range found {
		one := &found[i]
		ids[i], queues[i], keys[i], priorities[i], costs[i] = one.ID, one.Queue, one.Key, one.Priority, "{}"
		if one.Costs != nil {
			costs[i] = string(store.JSON(one.Costs))
		}
	}
	return store.Args{"ids": ids, "queues": queues, "keys": keys, "priorities": priorities, "costs": costs}
}

// pass queues the statement that lets jobs pass.
func (s *step) pass(ctx context.Context, batch *pgx.Batch, found []next, passed *[]Passed) error {
	var fair []int
	var joining []Joining
	for i := range found {
		if one := &found[i]; one.Fair {
			fair = append(fair, i)
			joining = append(joining, Joining{Lane: one.LaneID, Priority: one.Priority, Key: one.Key, Weight: one.KeyWeight})
		}
	}
	turns := map[uuid.UUID]time.Time{}
	if len(joining) > 0 {
		given, err := s.gate.Turns(ctx, s.tx, joining)
		if err != nil {
			return err
		}
		for i, place := range fair {
			turns[found[place].ID] = given[i]
		}
	}
	args := asRead(found)
	at := make([]*time.Time, len(found))
	for i := range found {
		if turn, ok := turns[found[i].ID]; ok {
			at[i] = &turn
		}
	}
	args["turns"] = at
	batch.Queue(readySQL, args).Query(func(rows pgx.Rows) (err error) {
		*passed, err = pgx.CollectRows(rows, pgx.RowToStructByName[Passed])
		return err
	})
	return nil
}
