package gate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// stepMicros is the step of a key of weight 1, in microseconds. A key of weight 100 has the smallest that a timestamp can have.
const stepMicros = 100

// Joining is a job that joins the line of its key.
type Joining struct {
	Lane     lanes.ID
	Priority int16
	Key      string
	// Weight is 1 where it is nil.
	Weight *float64
}

// step is rounded by chance, so that weights keep their ratios.
func (j *Joining) step() time.Duration {
	weight := 1.0
	if j.Weight != nil {
		weight = *j.Weight
	}
	micros := stepMicros/weight + rand.Float64() //nolint:gosec // rounds, guards nothing
	return max(time.Duration(micros*float64(time.Microsecond)).Truncate(time.Microsecond), time.Microsecond)
}

// turnsSQL gives for each key where its line ends: the first turn that waits in the list, or the time where nothing waits, and
// the key's last turn. It begins where the first one was a moment ago, past the entries of claimed jobs. Keys that are
// submitted at the same time in two transactions may get the same turns.
const turnsSQL = `
WITH list AS MATERIALIZED (
  SELECT l.place, COALESCE(
    (SELECT ready_at FROM jobs
     WHERE state = 'queued' AND lane_id = l.lane_id AND priority = l.priority AND ready_at >= l.hint
       AND (deadline IS NULL OR deadline > statement_timestamp())
     ORDER BY ready_at, id LIMIT 1),
    GREATEST(l.hint, statement_timestamp())) AS head, l.lane_id, l.priority
  FROM unnest(@lanes::bigint[], @priorities::smallint[], @hints::timestamptz[]) WITH ORDINALITY AS l(lane_id, priority, hint, place)
)
SELECT list.head,
  (SELECT ready_at FROM jobs
   WHERE state = 'queued' AND key IS NOT NULL AND lane_id = list.lane_id AND priority = list.priority AND key = f.key AND ready_at > list.head
   ORDER BY ready_at DESC LIMIT 1) AS last
FROM unnest(@lists::integer[], @keys::text[]) WITH ORDINALITY AS f(list, key, place) JOIN list ON list.place = f.list
ORDER BY f.place`

type listKey struct {
	lane     lanes.ID
	priority int16
}

type flowKey struct {
	list listKey
	key  string
}

// Turns gives each job its turn, in the order given.
func (g *Gate) Turns(ctx context.Context, db store.Querier, joining []Joining) ([]time.Time, error) {
	var lists []listKey
	places, flows := map[listKey]int32{}, map[flowKey]int{}
	lanes, priorities, of, keys := []lanes.ID{}, []int16{}, []int32{}, []string{}
	for i := range joining {
		list := listKey{joining[i].Lane, joining[i].Priority}
		if _, known := places[list]; !known {
			lists = append(lists, list)
			places[list] = int32(len(lists)) //nolint:gosec // at most a flush's jobs; SQL counts from 1
			lanes, priorities = append(lanes, list.lane), append(priorities, list.priority)
		}
		flow := flowKey{list, joining[i].Key}
		if _, known := flows[flow]; !known {
			flows[flow] = len(keys)
			of, keys = append(of, places[list]), append(keys, flow.key)
		}
	}
	hints := make([]time.Time, len(lists))
	for i, list := range lists {
		hints[i] = g.heads.of(list)
	}
	rows, err := db.Query(ctx, turnsSQL, store.Args{"lanes": lanes, "priorities": priorities, "hints": hints, "lists": of, "keys": keys})
	if err != nil {
		return nil, err
	}
	type line struct {
		Head time.Time
		Last *time.Time
	}
	lines, err := pgx.CollectRows(rows, pgx.RowToStructByPos[line])
	if err != nil {
		return nil, err
	}
	turns := make([]time.Time, len(joining))
	for i := range joining {
		list := listKey{joining[i].Lane, joining[i].Priority}
		at := &lines[flows[flowKey{list, joining[i].Key}]]
		g.heads.note(list, at.Head)
		if step := joining[i].step(); at.Last == nil { // before those of other lines that are a step after the first, too
			turns[i] = at.Head.Add(max(step-time.Microsecond, time.Microsecond))
		} else {
			turns[i] = at.Last.Add(step)
		}
		at.Last = &turns[i]
	}
	return turns, nil
}

// heads are the first turns that waited in lists when they were last asked for. They are hints.
type heads[K comparable] struct {
	// lookback is how long before it a question begins.
	lookback time.Duration

	mu   sync.Mutex
	seen map[K]time.Time
}

// mostHeads bounds them; without one the next question begins at the head of the index.
const mostHeads = 20_000

func (h *heads[K]) of(list K) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	head, known := h.seen[list]
	if !known {
		return time.Time{}
	}
	return head.Add(-h.lookback)
}

func (h *heads[K]) note(list K, head time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen == nil || len(h.seen) >= mostHeads {
		h.seen = map[K]time.Time{}
	}
	h.seen[list] = head
}
