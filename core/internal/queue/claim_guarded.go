package queue

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// pickSpare is how many jobs more than twice what is wanted are looked at: those
// that share a cap with others may have to be left out.
const pickSpare = 20

const leasePickedSQL = `
WITH chosen AS MATERIALIZED (
  SELECT array_agg(id ORDER BY id) AS ids, array_agg(place ORDER BY id) AS places, count(*) AS picked
  FROM unnest(@ids::uuid[]) WITH ORDINALITY AS p(id, place)
)
` + leaseSQL

// picked is a job that a claim has locked.
type picked struct {
	ID       uuid.UUID
	LaneID   directory.LaneID
	Priority int16
	ReadyAt  time.Time
	UserID   *string
	Size     int

	// left says that it was not leased, noRoom that a cap or a rate was why.
	left, noRoom bool
}

// MisroutedJob is a waiting job in a lane where it does not belong: its user has got a
// running cap since it was put there.
type MisroutedJob struct {
	Ready
	User string
}

// claimGuarded claims where some of the lanes are under a running cap or a rate. It
// locks jobs, leaves out those for which there is no room, and leases the others, all
// under the locks of these tenants: running ≤ cap holds at every commit.
func (s *Jobs) claimGuarded(ctx context.Context, tx pgx.Tx, claim *Claim) (Taken, error) {
	var caps [][]usage.Cap
	for i := range claim.Lanes {
		caps = append(caps, claim.Lanes[i].Caps)
	}
	room, busy, err := tryAndRead(ctx, tx, claim.Lanes, usage.KeysOf(caps...))
	if err != nil {
		return Taken{}, err
	}
	claim = claim.without(busy)
	if err := room.counts.Keep(ctx, tx); err != nil {
		return Taken{}, err
	}
	if err := room.counts.Exact(ctx, tx, caps...); err != nil {
		return Taken{}, err
	}
	shares := claim.laneShares(room)
	most := 2*claim.max() + pickSpare
	picks, err := pick(ctx, tx, claim, shares, most)
	if err != nil {
		return Taken{}, err
	}
	chosen, misrouted, cut := choose(claim, room, picks)
	taken := Taken{Misrouted: misrouted, Cut: cut, Busy: slices.Collect(maps.Keys(busy)), Scanned: scanned(shares, picks, most)}
	if len(claim.Without) > 0 { // what was passed by is behind no cursor
		for i := range taken.Scanned {
			taken.Scanned[i].To = Cursor{}
		}
	}
	if taken.Jobs, err = lease(ctx, tx, claim, room, chosen); err != nil {
		return Taken{}, err
	}
	return taken, nil
}

// tryLocksSQL takes the claim locks that are free. Whoever is not served by that
// comes back: to wait here would be to wait with a connection in hand, and with the
// locks of other tenants.
const tryLocksSQL = `
SELECT pg_try_advisory_xact_lock(t.key) FROM unnest(@locks::bigint[]) WITH ORDINALITY AS t(key, place) ORDER BY t.place`

// claimRoom is what caps and rates leave room for.
type claimRoom struct {
	counts *usage.Tally
	rates  usage.Rates
}

// of is how many jobs more of a lane may start; -1 for any number.
func (r *claimRoom) of(lane *ClaimLane) int64 {
	room := r.counts.Capacity(lane.Caps)
	if lane.Rate != nil {
		if left := r.rates.Capacity(lane.Rate); room < 0 || left < room {
			room = left
		}
	}
	return room
}

func (r *claimRoom) take(lane *ClaimLane) {
	r.counts.Take(lane.Caps, 1)
	if lane.Rate != nil {
		r.rates.Take(lane.Rate)
	}
}

// tryAndRead takes what locks are free and reads counts and rates, in later
// statements. busy are the tenants whose lock another claim has.
func tryAndRead(ctx context.Context, tx pgx.Tx, lanes []ClaimLane, keys []usage.CountKey) (*claimRoom, map[tenant.ID]bool, error) {
	room := &claimRoom{counts: &usage.Tally{}}
	limits := ratesOf(lanes)
	tenants := lockedTenants(keys, limits)
	if len(tenants) == 0 {
		return room, nil, nil
	}
	locks := make([]int64, len(tenants))
	for i, id := range tenants {
		locks[i] = store.LockKey(store.LockClaim, id)
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
	batch.Queue(usage.ReadUsageSQL, usage.CountArgs(keys)).Query(func(rows pgx.Rows) (err error) {
		room.counts, err = usage.CollectUsage(keys, rows)
		return err
	})
	room.rates.Read(batch, limits)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, err
	}
	for key := range room.counts.Counts {
		if busy[key.Tenant] {
			delete(room.counts.Counts, key)
		}
	}
	return room, busy, nil
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
		installation := usage.BitsOf(lane.Caps)&usage.RunningAll != 0
		if !busy[lane.Tenant] && (!installation || !busy[tenant.Platform]) {
			kept.Lanes = append(kept.Lanes, lane)
		}
	}
	return &kept
}

// lockedTenants are those whose lock the claim takes, each once, in one order for
// everybody.
func lockedTenants(keys []usage.CountKey, limits []*usage.Rate) []tenant.ID {
	var tenants []tenant.ID
	for _, key := range keys {
		tenants = append(tenants, key.Tenant)
	}
	for _, rate := range limits {
		tenants = append(tenants, rate.Tenant)
	}
	slices.SortFunc(tenants, func(a, b tenant.ID) int { return bytes.Compare(a[:], b[:]) })
	return slices.Compact(tenants)
}

// laneShares parts the claim's shares by lane, each with as many jobs as its caps and
// its rate leave room for: a lane without room is skipped, not scanned. What lanes have
// together, a share or a cap, is settled afterwards, job by job.
func (c *Claim) laneShares(room *claimRoom) []Share {
	var parted []Share
	lanes := c.byID()
	for _, share := range c.shares() {
		places := map[directory.LaneID]int{}
		for _, line := range share.Lists {
			lane := lanes[line.Lane]
			if lane == nil {
				continue // its tenant is busy
			}
			place, known := places[line.Lane]
			if !known {
				most := int64(share.Most)
				if left := room.of(lane); left >= 0 {
					most = min(most, left)
				}
				place = len(parted)
				places[line.Lane] = place
				parted = append(parted, Share{Most: int(most)})
			}
			parted[place].Lists = append(parted[place].Lists, line)
		}
	}
	return parted
}

func (c *Claim) byID() map[directory.LaneID]*ClaimLane {
	lanes := make(map[directory.LaneID]*ClaimLane, len(c.Lanes))
	for i := range c.Lanes {
		lanes[c.Lanes[i].ID] = &c.Lanes[i]
	}
	return lanes
}

func pick(ctx context.Context, tx pgx.Tx, claim *Claim, shares []Share, most int) ([]picked, error) {
	rows, err := tx.Query(ctx, pickSQL, pickArgs(shares, most, claim.Without))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[picked])
}

// choose takes, share after share and in each the first lines first, what there is
// room for under every cap, and marks those of the picked that it leaves. It ends with
// the first one that is too many bytes: cut.
func choose(claim *Claim, room *claimRoom, picks []picked) (ids []uuid.UUID, misrouted []MisroutedJob, cut bool) {
	lanes := claim.byID()
	most := claim.max()
	bytes := int64(0)
	for _, share := range claim.shares() {
		taken := 0
		for _, line := range share.Lists {
			for i := range picks {
				p := &picks[i]
				if !p.in(line) {
					continue
				}
				lane := lanes[p.LaneID]
				switch {
				case p.UserID != nil && lane.IsMisrouted != nil && lane.IsMisrouted(*p.UserID):
					p.left = true
					misrouted = append(misrouted, MisroutedJob{Ready{p.LaneID, p.Priority, p.ReadyAt, p.ID}, *p.UserID})
				case cut || len(ids) == most || taken == share.Most:
					p.left = true
				case room.of(lane) == 0:
					p.left, p.noRoom = true, true
				case len(ids) > 0 && bytes+p.bytes() > claim.bytes():
					p.left, cut = true, true
				default:
					room.take(lane)
					taken++
					bytes += p.bytes()
					ids = append(ids, p.ID)
				}
			}
		}
	}
	return ids, misrouted, cut
}

// bytes is what the job takes in an answer.
func (p *picked) bytes() int64 { return int64(p.Size) + sizeElse }

// lease leases the locked jobs and writes counts and rates.
func lease(ctx context.Context, tx pgx.Tx, claim *Claim, room *claimRoom, ids []uuid.UUID) (jobs []Claimed, err error) {
	batch := &pgx.Batch{}
	if len(ids) > 0 {
		args := claim.leaseArgs()
		args["ids"] = ids
		batch.Queue(leasePickedSQL, args).Query(func(rows pgx.Rows) error {
			jobs, err = pgx.CollectRows(rows, pgx.RowToStructByName[Claimed])
			return err
		})
	}
	room.counts.Append(batch)
	room.rates.Append(batch)
	if batch.Len() == 0 {
		return nil, nil
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	byPlace(jobs)
	return jobs, nil
}

const moveSQL = `
UPDATE jobs SET lane_id = m.lane_id
FROM unnest(@ids::uuid[], @from::integer[], @to::integer[]) AS m(id, was, lane_id)
WHERE jobs.id = ANY(@ids::uuid[]) AND jobs.id = m.id AND jobs.lane_id = m.was AND jobs.state <> 'running'`

// Move puts misrouted, of any tenants, into the lanes given, where they keep their
// place by time. One that was taken or moved meanwhile is left.
func (s *Jobs) Move(ctx context.Context, misrouted []MisroutedJob, to []directory.LaneID) error {
	order := make([]int, len(misrouted))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { // in the order of ids, as everybody locks them
		return strings.Compare(string(misrouted[a].ID[:]), string(misrouted[b].ID[:]))
	})
	ids, from, lanes := make([]uuid.UUID, len(misrouted)), make([]directory.LaneID, len(misrouted)), make([]directory.LaneID, len(misrouted))
	for i, index := range order {
		ids[i], from[i], lanes[i] = misrouted[index].ID, misrouted[index].Lane, to[index]
	}
	noRow := func(pgx.CollectableRow) (struct{}, error) { return struct{}{}, nil }
	if _, err := store.Query(ctx, s.Store, noRow, moveSQL, pgx.StrictNamedArgs{"ids": ids, "from": from, "to": lanes}); err != nil {
		return fmt.Errorf("queue: move: %w", store.NothingChanged(err)) // a move that is not known is made again
	}
	return nil
}

// ratesOf lists the rates of lanes, each queue's once, in order.
func ratesOf(lanes []ClaimLane) []*usage.Rate {
	var limits []*usage.Rate
	for i := range lanes {
		if rate := lanes[i].Rate; rate != nil {
			limits = append(limits, rate)
		}
	}
	slices.SortFunc(limits, func(a, b *usage.Rate) int { return a.Compare(b.QueueKey) })
	return slices.CompactFunc(limits, func(a, b *usage.Rate) bool { return a.QueueKey == b.QueueKey })
}
