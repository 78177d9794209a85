package queue

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// ReadyList is one priority of a lane: its jobs stand by (ready_at, id).
type ReadyList struct {
	Lane     directory.LaneID
	Priority int16
	// After is where to look from; the zero Cursor is the head.
	After Cursor
}

// Cursor is a place in a line. It is a hint: jobs may yet appear before it.
type Cursor struct {
	At time.Time
	ID uuid.UUID
}

// Compare orders places in one line.
func (c Cursor) Compare(other Cursor) int {
	if order := c.At.Compare(other.At); order != 0 {
		return order
	}
	return bytes.Compare(c.ID[:], other.ID[:])
}

// Before is the last place before c, so that who looks from there finds what stands at c.
func (c Cursor) Before() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]--
		if c.ID[i] != 0xff {
			return c
		}
	}
	return Cursor{At: c.At} // the first id is nobody's
}

// After is the first place after c: c is the last place before it.
func (c Cursor) After() Cursor {
	for i := len(c.ID) - 1; i >= 0; i-- {
		c.ID[i]++
		if c.ID[i] != 0 {
			break
		}
	}
	return c
}

// Ready says that a job can now be claimed: where it stands, or, with a zero ID, that
// it stands at At or behind. A zero At says only that the lane is to be scanned again, and
// with CapacityReleased as the priority that another job may run under the caps of the lane.
type Ready struct {
	Lane     directory.LaneID `json:"l"`
	Priority int16            `json:"p"`
	At       time.Time        `json:"t"`
	ID       uuid.UUID        `json:"i"`
}

// CapacityReleased is no priority.
const CapacityReleased = -1

// Cursor is the place from which the job is found.
func (r Ready) Cursor() Cursor { return Cursor{r.At, r.ID}.Before() }

// Share is how many jobs of some lines a claim may take: the first line first.
type Share struct {
	Lists []ReadyList
	Most  int
}

// ScanProgress says how far a claim came in a ready list.
type ScanProgress struct {
	Lane     directory.LaneID
	Priority int16
	// To is the last place of which everything before was taken, or was in other hands;
	// zero where nothing was taken.
	To Cursor
	// Exhausted says that nothing more is there for now: the line ended, or a cap or a rate
	// leaves no room.
	Exhausted bool
	// Throttled says that it was a cap or a rate.
	Throttled bool
}

// scanned gives, from the picked jobs in their order, how far each list was scanned. A
// share that got less than it may have has come to the end of all its lines; one
// that got as much as it may, or that met the claim's own end, of those before its
// last job.
func scanned(shares []Share, picks []picked, most int) []ScanProgress {
	var all []ScanProgress
	full := len(picks) >= most
	rest := picks
	for i := range shares {
		share := &shares[i]
		mine := rest[:leading(rest, share)]
		rest = rest[len(mine):]
		ended := full && len(rest) == 0
		if ended && len(mine) == 0 && share.Most > 0 {
			break // it was not looked at, and nor were those behind it
		}
		last := len(share.Lists) // also where there was no room: Most is 0 then
		if share.Most > 0 && (ended || len(mine) >= share.Most) {
			last = 0
			if len(mine) > 0 {
				last = slices.IndexFunc(share.Lists, mine[len(mine)-1].in)
			}
		}
		all = append(all, share.scanned(mine, last)...)
	}
	return all
}

// leading counts the picks at the head that are of the share.
func leading(picks []picked, share *Share) int {
	for n := range picks {
		if !slices.ContainsFunc(share.Lists, picks[n].in) {
			return n
		}
	}
	return len(picks)
}

// scanned gives how far a share's lists were scanned, of which those before last have
// come to their end.
func (s *Share) scanned(mine []picked, last int) []ScanProgress {
	all := make([]ScanProgress, 0, len(s.Lists))
	for i, line := range s.Lists {
		one := ScanProgress{Lane: line.Lane, Priority: line.Priority, Exhausted: i < last, Throttled: s.Most == 0}
		left := false
		for _, pick := range mine {
			switch {
			case !pick.in(line):
			case pick.noRoom:
				one.Exhausted, one.Throttled, left = true, true, true
			case pick.left:
				one.Exhausted, one.Throttled, left = false, false, true
			case !left:
				one.To = Cursor{pick.ReadyAt, pick.ID}
			}
		}
		all = append(all, one)
	}
	return all
}

func (p *picked) in(line ReadyList) bool { return p.LaneID == line.Lane && p.Priority == line.Priority }

// lineArgs are lines as arrays.
func lineArgs(lines []ReadyList) pgx.StrictNamedArgs {
	lanes, priorities := make([]directory.LaneID, len(lines)), make([]int16, len(lines))
	ats, ids := make([]time.Time, len(lines)), make([]uuid.UUID, len(lines))
	for i, line := range lines {
		lanes[i], priorities[i], ats[i], ids[i] = line.Lane, line.Priority, line.After.At, line.After.ID
	}
	return pgx.StrictNamedArgs{"line_lanes": lanes, "line_priorities": priorities, "line_ats": ats, "line_ids": ids}
}

// lookSQL asks of each line for the first job behind a place, and how many there
// are, up to a few: one probe of the ready index for each.
const lookSQL = `
SELECT line.lane_id AS lane, line.priority, first.at, first.id, first.jobs
FROM unnest(@line_lanes::integer[], @line_priorities::smallint[], @line_ats::timestamptz[], @line_ids::uuid[])
     AS line(lane_id, priority, at, id)
CROSS JOIN LATERAL (
  SELECT (array_agg(j.ready_at))[1] AS at, (array_agg(j.id))[1] AS id, count(*) AS jobs
  FROM (
    SELECT ready_at, id FROM jobs
    WHERE state = 'queued' AND lane_id = line.lane_id AND priority = line.priority AND (ready_at, id) > (line.at, line.id)
    ORDER BY ready_at, id
    LIMIT @most
  ) AS j
) AS first
WHERE first.jobs > 0`

// Waiting is a line in which jobs wait: where the first stands, and how many there
// are, counted up to what was asked for.
type Waiting struct {
	Ready
	Jobs int64 `json:"n"`
}

// Look tells in which of the lines, of any tenants, jobs wait behind the places
// given; it counts them up to most. It is the net under wake-ups that got lost.
func (s *Jobs) Look(ctx context.Context, lines []ReadyList, most int) ([]Waiting, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	args := lineArgs(lines)
	args["most"] = most
	found, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Waiting], lookSQL, args)
	if err != nil {
		return nil, fmt.Errorf("queue: look: %w", store.NothingChanged(err))
	}
	return found, nil
}

// scanSQL goes from line to line, one probe of the ready index for each, past
// whatever lies between them. It costs as much as there are dead entries before each
// line's first job: much, under an old snapshot.
const scanSQL = `
WITH RECURSIVE line AS (
  (SELECT lane_id, priority, ready_at, id
   FROM jobs
   WHERE state = 'queued' AND (lane_id, priority) > (@lane::integer, @priority::smallint)
   ORDER BY lane_id, priority, ready_at, id
   LIMIT 1)
  UNION ALL
  SELECT next.lane_id, next.priority, next.ready_at, next.id
  FROM line CROSS JOIN LATERAL (
    SELECT lane_id, priority, ready_at, id
    FROM jobs
    WHERE state = 'queued' AND (lane_id, priority) > (line.lane_id, line.priority)
    ORDER BY lane_id, priority, ready_at, id
    LIMIT 1
  ) AS next
)
SELECT lane_id AS lane, priority, ready_at AS at, id FROM line LIMIT @most`

// Scan finds lines in which jobs wait, of every tenant, and in each the first job:
// at most so many lines behind after, in their order. Less than most: there are no more.
func (s *Jobs) Scan(ctx context.Context, after ReadyList, most int) ([]Ready, error) {
	found, err := store.Query(ctx, s.Store, pgx.RowToStructByName[Ready], scanSQL, pgx.StrictNamedArgs{
		"lane": after.Lane, "priority": after.Priority, "most": most,
	})
	if err != nil {
		return nil, fmt.Errorf("queue: scan: %w", store.NothingChanged(err))
	}
	return found, nil
}
