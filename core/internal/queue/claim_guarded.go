package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// pickSQL locks jobs that may be leased, in the order in which they are to be
// served. An entry's quota is the most that its lane's caps leave room for; caps
// that lanes share are settled afterwards, job by job.
const pickSQL = `
SELECT ready.id, ready.lane_id, ready.user_id
FROM unnest(@entry_lanes::integer[], @entry_priorities::smallint[], @entry_quotas::bigint[]) AS entry(lane_id, priority, quota)
CROSS JOIN LATERAL (
  SELECT j.id, j.lane_id, j.user_id
  FROM jobs j
  WHERE j.state = 'queued' AND j.lane_id = entry.lane_id AND j.priority = entry.priority
    AND (j.deadline IS NULL OR j.deadline > statement_timestamp())
    AND (j.user_id IS NULL OR j.user_id <> ALL(@without::text[]))
  ORDER BY j.ready_at, j.id
  LIMIT entry.quota
  FOR UPDATE SKIP LOCKED
) AS ready
LIMIT @max`

// pickSpare is how many jobs more than twice what is wanted are looked at.
const pickSpare = 20

const leasePickedSQL = leaseSQL + `@ids::uuid[])` + leasedSQL

type picked struct {
	ID     uuid.UUID
	LaneID LaneID
	UserID *string
}

// Stray is a waiting job in a lane where it does not belong: its user has got a
// running cap since it was put there.
type Stray struct {
	ID   uuid.UUID
	Lane LaneID
	User string
}

// claimGuarded claims where some of the lanes are under a running cap. It locks
// jobs, leaves out those for which there is no room, and leases the others, all
// under the locks of the capped tenants: running ≤ cap holds at every commit.
func (s *Store) claimGuarded(ctx context.Context, tx pgx.Tx, claim *Claim) (Taken, error) {
	var caps [][]Cap
	for i := range claim.Lanes {
		caps = append(caps, claim.Lanes[i].Caps)
	}
	keys := keysOf(caps...)
	counts, busy, err := tryAndRead(ctx, tx, keys)
	if err != nil {
		return Taken{}, err
	}
	claim = claim.without(busy)
	if err := counts.keep(ctx, tx); err != nil {
		return Taken{}, err
	}
	if err := counts.exact(ctx, tx, caps...); err != nil {
		return Taken{}, err
	}
	found, err := pick(ctx, tx, claim, counts)
	if err != nil {
		return Taken{}, err
	}
	ids, strays := choose(claim, counts, found)
	taken := Taken{Strays: strays, Busy: len(busy) > 0}
	if taken.Jobs, err = lease(ctx, tx, claim, counts, ids); err != nil {
		return Taken{}, err
	}
	return taken, nil
}

// tryLocksSQL takes the claim locks that are free. Whoever is not served by that
// comes back: to wait here would be to wait with a connection in hand, and with the
// locks of other tenants.
const tryLocksSQL = `
SELECT pg_try_advisory_xact_lock(t.key) FROM unnest(@locks::bigint[]) WITH ORDINALITY AS t(key, place) ORDER BY t.place`

// tryAndRead takes what locks are free and reads the counts, in a later statement.
// busy are the tenants whose lock another claim has.
func tryAndRead(ctx context.Context, tx pgx.Tx, keys []CountKey) (*tally, map[tenant.ID]bool, error) {
	if len(keys) == 0 {
		return &tally{}, nil, nil
	}
	tenants := tenantsOf(keys)
	locks := make([]int64, len(tenants))
	for i, id := range tenants {
		locks[i] = lockKey(lockClaim, id)
	}
	batch := &pgx.Batch{}
	busy := map[tenant.ID]bool{}
	batch.Queue(tryLocksSQL, pgx.StrictNamedArgs{"locks": locks}).Query(func(rows pgx.Rows) error {
		free, err := pgx.CollectRows(rows, pgx.RowTo[bool])
		for i := range free {
			if !free[i] {
				busy[tenants[i]] = true
			}
		}
		return err
	})
	var counts *tally
	batch.Queue(readUsageSQL, countArgs(keys)).Query(func(rows pgx.Rows) (err error) {
		counts, err = collectUsage(keys, rows)
		return err
	})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, err
	}
	for key := range counts.counts {
		if busy[key.Tenant] {
			delete(counts.counts, key)
		}
	}
	return counts, busy, nil
}

// without leaves out the lanes of busy tenants; the installation's own lock is
// everybody's.
func (c *Claim) without(busy map[tenant.ID]bool) *Claim {
	if len(busy) == 0 {
		return c
	}
	kept := *c
	kept.Lanes = nil
	for _, lane := range c.Lanes {
		installation := bitsOf(lane.Caps)&RunningAll != 0
		if !busy[lane.Tenant] && (!installation || !busy[tenant.Platform]) {
			kept.Lanes = append(kept.Lanes, lane)
		}
	}
	return &kept
}

func tenantsOf(keys []CountKey) []tenant.ID {
	var tenants []tenant.ID
	for _, key := range keys {
		tenants = append(tenants, key.Tenant)
	}
	return slices.Compact(tenants) // the keys are in order
}

func pick(ctx context.Context, tx pgx.Tx, claim *Claim, counts *tally) ([]picked, error) {
	lanes, quotas := make([]LaneID, 0, len(claim.Lanes)), map[LaneID]int64{}
	for i := range claim.Lanes {
		lane := &claim.Lanes[i]
		quota := int64(claim.Max)
		if room := counts.room(lane.Caps); room >= 0 {
			quota = min(quota, room)
		}
		if quota > 0 { // a lane at its cap is skipped, not scanned
			lanes = append(lanes, lane.ID)
			quotas[lane.ID] = quota
		}
	}
	if len(lanes) == 0 {
		return nil, nil
	}
	entryLanes, priorities := entries(lanes)
	entryQuotas := make([]int64, len(entryLanes))
	for i, id := range entryLanes {
		entryQuotas[i] = quotas[id]
	}
	rows, err := tx.Query(ctx, pickSQL, pgx.StrictNamedArgs{
		"entry_lanes": entryLanes, "entry_priorities": priorities, "entry_quotas": entryQuotas, "without": notNil(claim.Without),
		// more than are wanted: those that share a cap with others may have to be left out
		"max": 2*claim.Max + pickSpare,
	})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[picked])
}

// choose takes, in the order found, what there is room for under every cap.
func choose(claim *Claim, counts *tally, found []picked) (ids []uuid.UUID, strays []Stray) {
	lanes := make(map[LaneID]*ClaimLane, len(claim.Lanes))
	for i := range claim.Lanes {
		lanes[claim.Lanes[i].ID] = &claim.Lanes[i]
	}
	for _, p := range found {
		if len(ids) == claim.Max {
			break
		}
		lane := lanes[p.LaneID]
		if p.UserID != nil && lane.Strayed != nil && lane.Strayed(*p.UserID) {
			strays = append(strays, Stray{p.ID, p.LaneID, *p.UserID})
			continue
		}
		if counts.room(lane.Caps) == 0 {
			continue
		}
		counts.take(lane.Caps, 1)
		ids = append(ids, p.ID)
	}
	return ids, strays
}

// lease leases the locked jobs and writes the counts.
func lease(ctx context.Context, tx pgx.Tx, claim *Claim, counts *tally, ids []uuid.UUID) (jobs []Claimed, err error) {
	batch := &pgx.Batch{}
	if len(ids) > 0 {
		args := claim.leaseArgs()
		args["ids"] = ids
		batch.Queue(leasePickedSQL, args).Query(func(rows pgx.Rows) error {
			jobs, err = pgx.CollectRows(rows, pgx.RowToStructByName[Claimed])
			return err
		})
	}
	counts.append(batch)
	if batch.Len() == 0 {
		return nil, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	// UPDATE gives its rows in any order; a worker is to get them as they were picked.
	place := make(map[uuid.UUID]int, len(ids))
	for i, id := range ids {
		place[id] = i
	}
	slices.SortFunc(jobs, func(a, b Claimed) int { return place[a.ID] - place[b.ID] })
	return jobs, nil
}

const moveSQL = `
UPDATE jobs SET lane_id = m.lane_id
FROM unnest(@ids::uuid[], @from::integer[], @to::integer[]) AS m(id, was, lane_id)
WHERE jobs.id = ANY(@ids::uuid[]) AND jobs.id = m.id AND jobs.lane_id = m.was AND jobs.state <> 'running'`

// Move puts strays, of any tenants, into the lanes given, where they keep their
// place by time. One that was taken or moved meanwhile is left.
func (s *Store) Move(ctx context.Context, strays []Stray, to []LaneID) error {
	order := make([]int, len(strays))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { // in the order of ids, as everybody locks them
		return strings.Compare(string(strays[a].ID[:]), string(strays[b].ID[:]))
	})
	ids, from, lanes := make([]uuid.UUID, len(strays)), make([]LaneID, len(strays)), make([]LaneID, len(strays))
	for i, index := range order {
		ids[i], from[i], lanes[i] = strays[index].ID, strays[index].Lane, to[index]
	}
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	if _, err := query(ctx, s, noRow, moveSQL, pgx.StrictNamedArgs{"ids": ids, "from": from, "to": lanes}); err != nil {
		return fmt.Errorf("queue: move: %w", nothingChanged(err)) // a move that is not known is made again
	}
	return nil
}
