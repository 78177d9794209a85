package gate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// usedSQL reads how far the rates of keys are used up.
const usedSQL = `
SELECT statement_timestamp() AS now, (asked.place - 1)::integer AS place,
       (SELECT used_to FROM key_rates AS r WHERE r.tenant_id = @tenant_id AND r.queue = asked.queue AND r.key = asked.key) AS used_to
FROM unnest(@queues::text[], @keys::text[]) WITH ORDINALITY AS asked(queue, key, place)`

const useSQL = `
INSERT INTO key_rates (tenant_id, queue, key, used_to)
SELECT @tenant_id, u.queue, u.key, u.used_to FROM unnest(@queues::text[], @keys::text[], @used::timestamptz[]) AS u(queue, key, used_to)
ON CONFLICT (tenant_id, queue, key) DO UPDATE SET used_to = EXCLUDED.used_to`

// laterSQL appends checks for when the rates let the next jobs pass. A key has one such check.
const laterSQL = `
INSERT INTO key_checks (tenant_id, queue, keys, due_at)
SELECT @tenant_id, l.queue, ARRAY[l.key], l.due_at FROM unnest(@queues::text[], @keys::text[], @due::timestamptz[]) AS l(queue, key, due_at)
WHERE NOT EXISTS (
  SELECT FROM key_checks AS c WHERE c.tenant_id = @tenant_id AND c.queue = l.queue AND l.key = ANY(c.keys) AND c.due_at > statement_timestamp())`

// rated is the rate of a key while jobs pass: GCRA.
type rated struct {
	queue, key string
	interval   time.Duration
	burst      int64
	usedTo     time.Time
	used       bool
	// due is when the next job may pass; nil where none was left.
	due *time.Time
}

func newRated(queue, key string, limits *api.KeySettings) *rated {
	burst := int64(math.Ceil(*limits.RatePerSecond))
	if limits.Burst != nil {
		burst = *limits.Burst
	}
	return &rated{queue: queue, key: key, interval: time.Duration(float64(time.Second) / *limits.RatePerSecond), burst: max(burst, 1)}
}

// take says whether one more job may pass now.
func (r *rated) take(now time.Time) bool {
	if r.usedTo.Before(now) {
		r.usedTo = now
	}
	if from := r.usedTo.Add(-time.Duration(r.burst-1) * r.interval); from.After(now) {
		r.due = &from
		return false
	}
	r.usedTo, r.used = r.usedTo.Add(r.interval), true
	return true
}

// throttle leaves out the jobs for which the rate of their key has none left now, and queues the statements that write the rates
// and the checks for later. throttled are the rates of which jobs wait.
func (s *step) throttle(ctx context.Context, batch *pgx.Batch, found []next, settings map[string]api.KeySettings) (passing []next, throttled []*rated, err error) {
	rates, of := []*rated{}, map[Key]*rated{}
	queues, keys := []string{}, []string{}
	for i := range found {
		one := &found[i]
		limits := settings[one.Queue]
		key := Key{Queue: one.Queue, Key: one.Key}
		if limits.RatePerSecond == nil || one.Key == "" || of[key] != nil {
			continue
		}
		of[key] = newRated(one.Queue, one.Key, &limits)
		rates, queues, keys = append(rates, of[key]), append(queues, one.Queue), append(keys, one.Key)
	}
	if len(rates) == 0 {
		return found, nil, nil
	}
	rows, err := s.tx.Query(ctx, usedSQL, store.Args{"tenant_id": s.owner, "queues": queues, "keys": keys})
	if err != nil {
		return nil, nil, err
	}
	var now time.Time
	var place int32
	var usedTo *time.Time
	if _, err = pgx.ForEachRow(rows, []any{&now, &place, &usedTo}, func() error {
		if usedTo != nil {
			rates[place].usedTo = *usedTo
		}
		return nil
	}); err != nil {
		return nil, nil, err
	}
	passing = make([]next, 0, len(found))
	for i := range found {
		if rate := of[Key{Queue: found[i].Queue, Key: found[i].Key}]; rate == nil || rate.take(now) {
			passing = append(passing, found[i])
		}
	}
	s.writeRates(batch, rates)
	return passing, slices.DeleteFunc(rates, func(r *rated) bool { return r.due == nil }), nil
}

func (s *step) writeRates(batch *pgx.Batch, rates []*rated) {
	var used, later struct {
		queues, keys []string
		at           []time.Time
	}
	for _, r := range rates {
		if r.used {
			used.queues, used.keys, used.at = append(used.queues, r.queue), append(used.keys, r.key), append(used.at, r.usedTo)
		}
		if r.due != nil {
			later.queues, later.keys, later.at = append(later.queues, r.queue), append(later.keys, r.key), append(later.at, *r.due)
		}
	}
	if len(used.keys) > 0 {
		batch.Queue(useSQL, store.Args{"tenant_id": s.owner, "queues": used.queues, "keys": used.keys, "used": used.at})
	}
	if len(later.keys) > 0 {
		batch.Queue(laterSQL, store.Args{"tenant_id": s.owner, "queues": later.queues, "keys": later.keys, "due": later.at})
	}
}

const nextDueSQL = `
SELECT due_at - statement_timestamp() FROM key_checks WHERE due_at > '-infinity' ORDER BY due_at LIMIT 1`

// NextDue is the time until a rate lets the next job pass, of any key; false where none waits for one.
func (g *Gate) NextDue(ctx context.Context) (time.Duration, bool, error) {
	due, err := store.Query(ctx, g.Store, pgx.RowTo[time.Duration], nextDueSQL, store.Args{})
	if err != nil {
		return 0, false, fmt.Errorf("gate: next due: %w", store.NotApplied(err))
	}
	if len(due) == 0 {
		return 0, false, nil
	}
	return due[0], true, nil
}

// forgetRatesSQL reads the table: it has a row for each key that started a job of late.
const forgetRatesSQL = `
DELETE FROM key_rates WHERE (tenant_id, queue, key) IN (
  SELECT tenant_id, queue, key FROM key_rates WHERE used_to < statement_timestamp() AND tenant_id <> ALL(` + store.MovingSQL + `)
  LIMIT @most FOR UPDATE SKIP LOCKED)`

// ForgetRates deletes up to most rates that are not used up at all.
func (g *Gate) ForgetRates(ctx context.Context, most int) error {
	if err := store.Exec(ctx, g.Store, forgetRatesSQL, store.Args{"most": most}); err != nil {
		return fmt.Errorf("gate: forget rates: %w", store.NotApplied(err))
	}
	return nil
}
