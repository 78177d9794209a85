package outbox

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/shared/api"
)

// maxBatchBytes leaves room in a request for what is not counted.
const maxBatchBytes = api.MaxBatchBody - api.MaxBatchBody/8

// maxUnknown is for how long the repeat of a batch stores nothing twice: a server remembers an Idempotency-Key for 24
// hours at least.
const maxUnknown = 23 * time.Hour

// batch is rows in flight.
type batch struct {
	// id is a UUID.
	id   string
	rows []row
	// tries counts this one, from 1.
	tries int
	// unknown: an earlier try may have been stored.
	unknown bool
	// expired: that was longer ago than the server remembers.
	expired bool
	// until is the end of the lease.
	until time.Time
}

type row struct {
	id       int64
	refusals int
	text     []byte
	job      api.SubmitRequest
}

// key is the Idempotency-Key.
func (b *batch) key() string { return "outbox-" + b.id }

// claim takes a batch to send: one that nobody sends any more, or a new one of rows without a key, or with. Which of
// the three goes first changes from call to call, so that none has to wait for the end of the others. Nil is nothing to do.
func (r *Relay) claim(ctx context.Context) (*batch, error) {
	sources := []func(context.Context) (*batch, error){r.claimAgain, r.claimFree, r.claimOrdered}
	first := int(r.turn.Add(1) % uint64(len(sources))) //nolint:gosec // below 3
	for i := range sources {
		begun := time.Now()
		b, err := sources[(first+i)%len(sources)](ctx)
		if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.ConstraintName == "forgequeue_outbox_one_by_one" {
			r.wake() // another relay was first to take a row of some key
			continue
		}
		if err != nil {
			return nil, err
		}
		if b != nil {
			b.until = begun.Add(r.o.Lease)
			return b, nil
		}
	}
	return nil, nil //nolint:nilnil // nothing to do
}

// The batch that has waited longest. What it says of the time before is as it was.
const claimAgainSQL = `
WITH due AS (
  SELECT id, unknown_since
  FROM forgequeue_outbox_batches
  WHERE next_at <= statement_timestamp()
  ORDER BY next_at
  LIMIT 1
  FOR UPDATE SKIP LOCKED
)
UPDATE forgequeue_outbox_batches b
SET next_at = statement_timestamp() + $1::interval, tries = b.tries + 1,
    unknown_since = coalesce(b.unknown_since, statement_timestamp())
FROM due
WHERE b.id = due.id
RETURNING b.id::text, b.tries, due.unknown_since IS NOT NULL,
  coalesce(due.unknown_since < statement_timestamp() - $2::interval, false)`

const batchRowsSQL = `
SELECT id, refusals, job
FROM forgequeue_outbox
WHERE batch = $1::uuid
ORDER BY id`

func (r *Relay) claimAgain(ctx context.Context) (*batch, error) {
	var b batch
	err := r.o.Table.pool.QueryRow(ctx, claimAgainSQL, r.o.Lease, maxUnknown).Scan(&b.id, &b.tries, &b.unknown, &b.expired)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil //nolint:nilnil // none is due
	}
	if err == nil {
		err = b.read(ctx, r.o.Table, batchRowsSQL, b.id)
	}
	if err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	return &b, nil
}

// takenSQL makes a batch of the rows in free, as far as their sizes fit into a request, at least one.
const takenSQL = `, fitting AS (
  SELECT id
  FROM (SELECT id, bytes, sum(bytes) OVER (ORDER BY id) AS total FROM free) AS summed
  WHERE total <= $3 OR total = bytes
), batched AS (
  INSERT INTO forgequeue_outbox_batches (id, next_at, unknown_since)
  SELECT $1::uuid, statement_timestamp() + $2::interval, statement_timestamp()
  WHERE EXISTS (SELECT FROM fitting)
)
UPDATE forgequeue_outbox o
SET state = 'sending', batch = $1::uuid
FROM fitting
WHERE o.id = fitting.id
RETURNING o.id, o.refusals, o.job`

const claimFreeSQL = `
WITH free AS (
  SELECT id, bytes
  FROM forgequeue_outbox
  WHERE state = 'waiting' AND ordering_key IS NULL AND not_before <= statement_timestamp()
  ORDER BY not_before, id
  LIMIT $4
  FOR UPDATE SKIP LOCKED
)` + takenSQL

func (r *Relay) claimFree(ctx context.Context) (*batch, error) {
	return r.claimNew(ctx, claimFreeSQL, r.o.Batch)
}

// The first rows of the next keys after $1, at most $2 of them, each by one look into the index: a key with a million rows is as fast as
// one with a single row. Only the first row of a key may be sent, one at a time (the unique index).
const headsSQL = `
WITH RECURSIVE heads AS (
  (SELECT ordering_key, id, state, not_before, 1 AS place
   FROM forgequeue_outbox
   WHERE ordering_key IS NOT NULL AND state <> 'sent' AND ordering_key > $1
   ORDER BY ordering_key, id LIMIT 1)
  UNION ALL
  SELECT following.*
  FROM heads
  CROSS JOIN LATERAL (
    SELECT o.ordering_key, o.id, o.state, o.not_before, heads.place + 1
    FROM forgequeue_outbox o
    WHERE o.ordering_key IS NOT NULL AND o.state <> 'sent' AND o.ordering_key > heads.ordering_key
    ORDER BY o.ordering_key, o.id LIMIT 1) AS following
  WHERE heads.place < $2
)
SELECT coalesce(array_agg(id) FILTER (WHERE state = 'waiting' AND not_before <= statement_timestamp()), '{}'),
  CASE WHEN count(*) < $2 THEN '' ELSE max(ordering_key) END
FROM heads`

// The rows are asked again: another relay may have taken them meanwhile. A key with a row in flight is left out, even if an
// earlier row has come to be seen since, of a transaction that took longer.
const claimOrderedSQL = `
WITH free AS (
  SELECT o.id, o.bytes
  FROM forgequeue_outbox o
  WHERE o.id = ANY($4) AND o.state = 'waiting'
    AND NOT EXISTS (SELECT FROM forgequeue_outbox s WHERE s.ordering_key = o.ordering_key AND s.batch IS NOT NULL)
  FOR UPDATE SKIP LOCKED
)` + takenSQL

func (r *Relay) claimOrdered(ctx context.Context) (*batch, error) {
	for range maxScans {
		from := r.nextKey()
		var heads []int64
		var last string
		if err := r.o.Table.pool.QueryRow(ctx, headsSQL, from, r.o.Batch).Scan(&heads, &last); err != nil {
			return nil, fmt.Errorf("outbox: claim: %w", err)
		}
		r.keyDone(last)
		if len(heads) > 0 {
			if b, err := r.claimNew(ctx, claimOrderedSQL, heads); b != nil || err != nil {
				return b, err
			}
		}
		if last == "" && from == "" {
			return nil, nil //nolint:nilnil // all keys were looked at
		}
	}
	return nil, nil //nolint:nilnil // none of those; the next claim goes on from there
}

// maxScans bounds the keys that one claim looks at, all of which may have a row in flight, or one that failed.
const maxScans = 20

func (r *Relay) nextKey() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.key
}

func (r *Relay) keyDone(last string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.key = last
}

func (r *Relay) claimNew(ctx context.Context, statement string, which any) (*batch, error) {
	b := batch{id: newID(), tries: 1}
	if err := b.read(ctx, r.o.Table, statement, b.id, r.o.Lease, maxBatchBytes, which); err != nil {
		return nil, fmt.Errorf("outbox: claim: %w", err)
	}
	if len(b.rows) == 0 {
		return nil, nil //nolint:nilnil // nothing to take
	}
	return &b, nil
}

// read fills the rows of a batch, in the order of their ids: a repeat sends the same request.
func (b *batch) read(ctx context.Context, t *Table, statement string, args ...any) error {
	rows, err := t.pool.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	b.rows, err = pgx.CollectRows(rows, func(from pgx.CollectableRow) (one row, err error) {
		err = from.Scan(&one.id, &one.refusals, &one.text)
		return one, err
	})
	slices.SortFunc(b.rows, func(a, b row) int { return int(a.id - b.id) })
	return err
}

// decode reads the jobs, and gives the rows that are none for this program: inserted without the functions, or by
// those of a later version.
func (b *batch) decode() (unreadable []verdict) {
	for i := range b.rows {
		decoder := json.NewDecoder(bytes.NewReader(b.rows[i].text))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&b.rows[i].job); err != nil {
			unreadable = append(unreadable, verdict{row: b.rows[i], kind: refused, why: Refusal{
				Code: "unreadable", Detail: clean("This relay cannot read the job: "+err.Error()) + ". If a later version has stored it, update the relay, then retry the row.",
			}})
		}
	}
	return unreadable
}

// newID draws a UUID, version 4.
func newID() string {
	var drawn [16]byte
	_, _ = rand.Read(drawn[:]) // never fails
	drawn[6], drawn[8] = drawn[6]&0x0f|0x40, drawn[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", drawn[:4], drawn[4:6], drawn[6:8], drawn[8:10], drawn[10:])
}
