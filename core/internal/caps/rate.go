package caps

import (
	"math"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Rate limits how many jobs of a queue, or of one type in it, start in a second, in all cores together.
//
// It is GCRA (the generic cell rate algorithm, ITU-T I.371): the queue's next start is due at a
// time that each start advances by 1/PerSecond; a burst of one second's starts, and at least one,
// may start before it is due. Like counts, the time is appended under the tenant's lock and never
// updated in place.
type Rate struct {
	// QueueKey has the queue's name, or that of a type in it as TypeName gives it.
	tenant.QueueKey
	PerSecond float64
}

// longestInterval, ten years, does not overflow a Duration in the formulas below.
const longestInterval = 10 * 365 * 24 * float64(time.Hour)

// dueSlack is how far a due time may exceed its possible maximum.
const dueSlack = time.Second

// interval is the time between two starts.
func (r *Rate) interval() time.Duration {
	return max(time.Duration(min(float64(time.Second)/r.PerSecond, longestInterval)), time.Nanosecond)
}

// burst is how many may start at once after a pause.
func (r *Rate) burst() int64 { return max(int64(math.Ceil(r.PerSecond)), 1) }

// trusted is due, unless it is later than starts at this rate can have made it: it is then of a
// lower rate, or of a clock that was set back since. Waiting for it could take any time; one job
// may start.
func (r *Rate) trusted(now, due time.Time) time.Time {
	full := time.Duration(r.burst()) * r.interval()
	if due.Sub(now) > full+dueSlack {
		return now.Add(full - r.interval())
	}
	return due
}

// allowed is how many may start at now if the next start is due at due.
func (r *Rate) allowed(now, due time.Time) int64 {
	ahead := max(r.trusted(now, due).Sub(now), 0)
	return max(int64((time.Duration(r.burst())*r.interval()-ahead)/r.interval()), 0)
}

// Wait is how long it takes until a job may start; 0 for now.
func (r *Rate) Wait(now, due time.Time) time.Duration {
	if r.allowed(now, due) > 0 {
		return 0
	}
	return r.trusted(now, due).Sub(now) - time.Duration(r.burst()-1)*r.interval()
}

// after is the next due time after n starts at now.
func (r *Rate) after(now, due time.Time, n int64) time.Time {
	if due = r.trusted(now, due); due.Before(now) {
		due = now
	}
	return due.Add(time.Duration(n) * r.interval())
}

// Rates are the states of queues' rates, as read under their lock, and the starts since.
type Rates map[tenant.QueueKey]*rateState

type rateState struct {
	rate     *Rate
	seq      int64
	now, due time.Time
	taken    int64
}

const readRatesSQL = `
SELECT k.place::integer - 1 AS place, COALESCE(log.seq, 0) AS seq, COALESCE(log.due, statement_timestamp()) AS due,
       statement_timestamp() AS now
FROM unnest(@tenants::uuid[], @queues::text[]) WITH ORDINALITY AS k(tenant_id, queue, place)
LEFT JOIN LATERAL (
  SELECT l.seq, l.due
  FROM rate_log l
  WHERE l.tenant_id = k.tenant_id AND l.queue = k.queue
  ORDER BY l.seq DESC
  LIMIT 1
) AS log ON true`

type rateRow struct {
	Place int32
	Seq   int64
	Due   time.Time
	Now   time.Time
}

// Read reads the rates with the batch.
func (r *Rates) Read(batch *pgx.Batch, limits []*Rate) {
	if len(limits) == 0 {
		return
	}
	tenants, queues := make([]tenant.ID, len(limits)), make([]string, len(limits))
	for i, rate := range limits {
		tenants[i], queues[i] = rate.Tenant, rate.Name
	}
	batch.Queue(readRatesSQL, store.Args{"tenants": tenants, "queues": queues}).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[rateRow])
		*r = make(Rates, len(found))
		for _, row := range found {
			rate := limits[row.Place]
			(*r)[rate.QueueKey] = &rateState{rate: rate, seq: row.Seq, now: row.Now, due: row.Due}
		}
		return err
	})
}

// Capacity is how many jobs may start under a rate.
func (r *Rates) Capacity(rate *Rate) int64 {
	state := (*r)[rate.QueueKey]
	if state == nil {
		return 0
	}
	return max(state.rate.allowed(state.now, state.due)-state.taken, 0)
}

// Take lets one job start.
func (r *Rates) Take(rate *Rate) {
	if state := (*r)[rate.QueueKey]; state != nil {
		state.taken++
	}
}

// appendRatesSQL adds a row and deletes an older one. Dead rows that an old snapshot holds are
// before the newest in the index, where no reader scans.
const appendRatesSQL = `
WITH next AS (
  SELECT * FROM unnest(@tenants::uuid[], @queues::text[], @seqs::bigint[], @dues::timestamptz[]) AS n(tenant_id, queue, seq, due)
), forgotten AS (
  DELETE FROM rate_log l USING next WHERE l.tenant_id = next.tenant_id AND l.queue = next.queue AND l.seq = next.seq - 2
)
INSERT INTO rate_log (tenant_id, queue, seq, due) SELECT tenant_id, queue, seq, due FROM next`

// Append writes what was taken, with the batch.
func (r *Rates) Append(batch *pgx.Batch) {
	var tenants []uuid.UUID
	var queues []string
	var seqs []int64
	var dues []time.Time
	for key, state := range *r {
		if state.taken > 0 {
			tenants, queues = append(tenants, key.Tenant), append(queues, key.Name)
			seqs, dues = append(seqs, state.seq+1), append(dues, state.rate.after(state.now, state.due, state.taken))
		}
	}
	if len(tenants) > 0 {
		batch.Queue(appendRatesSQL, store.Args{"tenants": tenants, "queues": queues, "seqs": seqs, "dues": dues})
	}
}
