package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The batch, if it is still there: another relay may have recorded the same answer.
const lockBatchSQL = `SELECT tries FROM forgequeue_outbox_batches WHERE id = $1::uuid FOR UPDATE`

const deleteBatchSQL = `DELETE FROM forgequeue_outbox_batches WHERE id = $1::uuid`

// record stores what became of a batch, in one transaction.
func (t *Table) record(ctx context.Context, b *batch, j judgment, retain time.Duration) error {
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		var tries int
		err := tx.QueryRow(ctx, lockBatchSQL, b.id).Scan(&tries)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if tries > b.tries && !j.final() {
			return nil // another relay sends it meanwhile
		}
		switch j.kind {
		case kept:
			_, err := tx.Exec(ctx, keepSQL, b.id, j.wait, clean(j.err), b.unknown || j.unknown)
			return err
		case split:
			return halve(ctx, tx, b)
		}
		if err := settle(ctx, tx, b, j.verdicts, retain); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, deleteBatchSQL, b.id)
		return err
	})
	if err != nil {
		return fmt.Errorf("outbox: record: %w", err)
	}
	return nil
}

// What is not known stays so.
const keepSQL = `
UPDATE forgequeue_outbox_batches
SET next_at = statement_timestamp() + $2::interval, error = $3,
    unknown_since = CASE WHEN $4 THEN unknown_since END
WHERE id = $1::uuid`

const halveSQL = `
WITH halves AS (
  INSERT INTO forgequeue_outbox_batches (id, next_at) VALUES ($2::uuid, statement_timestamp()), ($3::uuid, statement_timestamp())
)
UPDATE forgequeue_outbox
SET batch = CASE WHEN id < $4 THEN $2::uuid ELSE $3::uuid END
WHERE batch = $1::uuid`

// halve makes two batches of one, to be sent at once.
func halve(ctx context.Context, tx pgx.Tx, b *batch) error {
	middle := b.rows[len(b.rows)/2].id
	if _, err := tx.Exec(ctx, halveSQL, b.id, newID(), newID(), middle); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, deleteBatchSQL, b.id)
	return err
}

const deleteSentSQL = `DELETE FROM forgequeue_outbox WHERE batch = $1::uuid AND id = ANY($2)`

const keepSentSQL = `
UPDATE forgequeue_outbox o
SET state = 'sent', batch = NULL, error = NULL, ended_at = statement_timestamp(), job_id = job.id::uuid
FROM unnest($2::bigint[], $3::text[]) AS job(outbox_id, id)
WHERE o.batch = $1::uuid AND o.id = job.outbox_id`

const failSQL = `
UPDATE forgequeue_outbox o
SET state = 'failed', batch = NULL, error = why.error::jsonb, ended_at = statement_timestamp()
FROM unnest($2::bigint[], $3::text[]) AS why(id, error)
WHERE o.batch = $1::uuid AND o.id = why.id`

const postponeSQL = `
UPDATE forgequeue_outbox o
SET state = 'waiting', batch = NULL, error = why.error::jsonb, refusals = o.refusals + 1,
    not_before = statement_timestamp() + why.wait_ms * interval '1 millisecond'
FROM unnest($2::bigint[], $3::text[], $4::bigint[]) AS why(id, error, wait_ms)
WHERE o.batch = $1::uuid AND o.id = why.id`

// settle gives each row what the server has said of it.
func settle(ctx context.Context, tx pgx.Tx, b *batch, verdicts []verdict, retain time.Duration) error {
	var sent, failed, later sorted
	for i := range verdicts {
		switch v := &verdicts[i]; v.kind {
		case accepted:
			sent.add(v, v.jobID)
		case refused:
			failed.add(v, v.why.text())
		default:
			later.add(v, v.why.text())
		}
	}
	batch := &pgx.Batch{}
	switch {
	case len(sent.ids) == 0:
	case retain > 0:
		batch.Queue(keepSentSQL, b.id, sent.ids, sent.texts)
	default:
		batch.Queue(deleteSentSQL, b.id, sent.ids)
	}
	if len(failed.ids) > 0 {
		batch.Queue(failSQL, b.id, failed.ids, failed.texts)
	}
	if len(later.ids) > 0 {
		batch.Queue(postponeSQL, b.id, later.ids, later.texts, later.waits)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// sorted are the rows with one kind of verdict, in columns.
type sorted struct {
	ids   []int64
	texts []string
	waits []int64
}

func (s *sorted) add(v *verdict, text string) {
	s.ids, s.texts, s.waits = append(s.ids, v.row.id), append(s.texts, text), append(s.waits, v.wait.Milliseconds())
}

func (r Refusal) text() string {
	text, _ := json.Marshal(r) // strings and a number
	return string(text)
}

// setAside fails rows of a batch that was not sent yet.
func (t *Table) setAside(ctx context.Context, b *batch, unreadable []verdict) error {
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error { return settle(ctx, tx, b, unreadable, 0) })
	if err != nil {
		return fmt.Errorf("outbox: record: %w", err)
	}
	return nil
}
