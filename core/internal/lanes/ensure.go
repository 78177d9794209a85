package lanes

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Ask requests a lane.
type Ask struct {
	Key
	// For is the user whose job needs it, "" for none.
	RequestedBy string
}

// Made is the answer to an Ask.
type Made struct {
	Lane
	// Full, where not 0, is the bound that prevents the lane: it has no id.
	Refused Bound
}

// knownLanesSQL finds the existing lanes. The LIMIT makes each a probe of its own.
const knownLanesSQL = `
SELECT asked.place::integer - 1 AS place, lane.id, lane.retired_at IS NOT NULL AS retired, lane.requested_by
FROM unnest(@queues::text[], @types::text[], @tags::text[], @users::text[], @fair::boolean[], @budgeted::boolean[]) WITH ORDINALITY AS asked(queue, type, tags, capped_user, fair, budgeted, place)
CROSS JOIN LATERAL (
  SELECT l.id, l.retired_at, l.requested_by FROM lanes l
  WHERE l.tenant_id = @tenant_id AND l.queue = asked.queue AND l.type = asked.type AND l.tags = asked.tags::text[] AND l.capped_user = asked.capped_user AND l.fair = asked.fair AND l.budgeted = asked.budgeted
  LIMIT 1
) AS lane`

type knownLane struct {
	Place       int32
	ID          ID
	Retired     bool
	RequestedBy string
}

// createQueuesSQL creates queues with default settings; a deleted one is there again.
const createQueuesSQL = `
INSERT INTO queues (tenant_id, name, requested_by, created_at, updated_at)
SELECT @tenant_id, asked.name, asked.requested_by, statement_timestamp(), statement_timestamp()
FROM unnest(@queues::text[], @makers::text[]) AS asked(name, requested_by)
ON CONFLICT (tenant_id, name) DO UPDATE SET requested_by = EXCLUDED.requested_by, updated_at = EXCLUDED.updated_at
WHERE queues.deleted_at = queues.updated_at`

// reviveLanesSQL puts retired lanes into use again. It waits for one that is being deleted, which
// is then not returned.
const reviveLanesSQL = `
UPDATE lanes SET retired_at = NULL, used_at = statement_timestamp(), requested_by = asked.requested_by
FROM unnest(@ids::bigint[], @makers::text[]) AS asked(id, requested_by)
WHERE lanes.id = asked.id
RETURNING lanes.id`

// createLanesSQL stores new lanes. The tenant's lock serialises it.
const createLanesSQL = `
INSERT INTO lanes (tenant_id, queue, type, tags, capped_user, fair, budgeted, requested_by, created_at, used_at)
SELECT @tenant_id, asked.queue, asked.type, asked.tags::text[], asked.capped_user, asked.fair, asked.budgeted, asked.requested_by, statement_timestamp(), statement_timestamp()
FROM unnest(@queues::text[], @types::text[], @tags::text[], @users::text[], @fair::boolean[], @budgeted::boolean[], @makers::text[]) AS asked(queue, type, tags, capped_user, fair, budgeted, requested_by)
RETURNING id, queue, type, tags, capped_user, fair, budgeted`

// errLaneChanged says that a lane was deleted by a concurrent transaction.
var errLaneChanged = errors.New("lanes: a concurrent transaction deleted a lane")

// Ensure gives lanes of one tenant, and creates those that do not exist, and their queues. It
// commits before it returns: a lane exists before the first job in it. A bound that is reached is
// an answer, not an error.
func (s *Lanes) Ensure(ctx context.Context, owner tenant.ID, asks []Ask) (made []Made, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	const tries = 3
	for range tries {
		err = s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
			made, err = s.ensureLanes(ctx, tx, owner, asks)
			return err
		})
		if !errors.Is(err, errLaneChanged) {
			break
		}
	}
	if err != nil {
		// a lane with unknown outcome is harmless: no job is in it
		return nil, fmt.Errorf("lanes: lanes: %w", store.NotApplied(err))
	}
	return made, nil
}

func (s *Lanes) ensureLanes(ctx context.Context, tx pgx.Tx, owner tenant.ID, asks []Ask) ([]Made, error) {
	known, use, err := s.readLanes(ctx, tx, owner, asks)
	if err != nil {
		return nil, err
	}
	made, plan := planLanes(asks, known, use)
	if len(plan.revived)+len(plan.fresh) == 0 {
		return made, nil
	}
	return made, plan.store(ctx, tx, owner, made)
}

// lanePlan is the set of rows to write.
type lanePlan struct {
	asks   []Ask
	queues []Ask
	// revived and fresh have the places of the requests that a lane answers, maybe of several
	// users.
	revived map[ID][]int
	fresh   map[Key][]int
}

// planLanes answers requests for existing lanes, and plans the others up to the bounds.
func planLanes(asks []Ask, known map[int]knownLane, use *laneUse) ([]Made, *lanePlan) {
	made := make([]Made, len(asks))
	plan := &lanePlan{asks: asks, revived: map[ID][]int{}, fresh: map[Key][]int{}}
	for i, ask := range asks {
		made[i].Key = ask.Key
		there, ok := known[i]
		if ok && !there.Retired {
			made[i].ID = there.ID
			continue
		}
		if planned := len(plan.revived[there.ID]) + len(plan.fresh[ask.Key]); planned == 0 {
			take := use.take
			if ok {
				take = func(ask Ask) (bool, Bound) { return use.revive(ask, there.RequestedBy) }
			}
			newQueue, full := take(ask)
			if full != 0 {
				made[i].Refused = full
				continue
			}
			if newQueue {
				plan.queues = append(plan.queues, ask)
			}
		}
		if ok {
			plan.revived[there.ID] = append(plan.revived[there.ID], i)
		} else {
			plan.fresh[ask.Key] = append(plan.fresh[ask.Key], i)
		}
	}
	return made, plan
}

// store writes the plan and fills in the ids.
func (p *lanePlan) store(ctx context.Context, tx pgx.Tx, owner tenant.ID, made []Made) error {
	batch := &pgx.Batch{}
	if len(p.queues) > 0 {
		batch.Queue(createQueuesSQL, laneArgs(owner, p.queues, "queues", "makers"))
	}
	if len(p.revived) > 0 {
		ids, makers := make([]ID, 0, len(p.revived)), make([]string, 0, len(p.revived))
		for id, places := range p.revived {
			ids, makers = append(ids, id), append(makers, p.asks[places[0]].RequestedBy)
		}
		batch.Queue(reviveLanesSQL, store.Args{"ids": ids, "makers": makers}).Query(func(rows pgx.Rows) error {
			var id ID
			_, err := pgx.ForEachRow(rows, []any{&id}, func() error {
				for _, place := range p.revived[id] {
					made[place].ID = id
				}
				return nil
			})
			return err
		})
	}
	if len(p.fresh) > 0 {
		fresh := make([]Ask, 0, len(p.fresh))
		for _, places := range p.fresh {
			fresh = append(fresh, p.asks[places[0]])
		}
		batch.Queue(createLanesSQL, laneArgs(owner, fresh, "queues", "types", "tags", "users", "fair", "budgeted", "makers")).Query(func(rows pgx.Rows) error {
			var id ID
			var queue, jobType, user string
			var tags []string
			var fair, budgeted bool
			_, err := pgx.ForEachRow(rows, []any{&id, &queue, &jobType, &tags, &user, &fair, &budgeted}, func() error {
				key := NewKey(owner, queue, jobType, tags).Of(user)
				key.Fair, key.Budgeted = fair, budgeted
				for _, place := range p.fresh[key] {
					made[place].ID = id
				}
				return nil
			})
			return err
		})
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for i := range made {
		if made[i].ID == 0 && made[i].Refused == 0 {
			return errLaneChanged
		}
	}
	return nil
}

// laneArgs are the named columns of requests, and the tenant.
func laneArgs(owner tenant.ID, asks []Ask, columns ...string) store.Args {
	args := store.Args{"tenant_id": owner}
	for _, column := range columns {
		if column == "fair" || column == "budgeted" {
			are := make([]bool, len(asks))
			for i, ask := range asks {
				are[i] = ask.Budgeted
				if column == "fair" {
					are[i] = ask.Fair
				}
			}
			args[column] = are
			continue
		}
		values := make([]string, len(asks))
		for i, ask := range asks {
			switch column {
			case "queues":
				values[i] = ask.Queue
			case "types":
				values[i] = ask.Type
			case "tags":
				values[i] = store.TextArray(ask.Tags())
			case "users":
				values[i] = ask.User
			case "makers":
				values[i] = ask.RequestedBy
			}
		}
		args[column] = values
	}
	return args
}
