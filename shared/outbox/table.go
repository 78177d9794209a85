package outbox

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Table is the outbox in a database: what people and relays do with it. It is safe for concurrent use.
type Table struct{ pool *pgxpool.Pool }

// Open makes a Table of a pool of the caller's, in whose schema (search_path) it is.
func Open(pool *pgxpool.Pool) *Table { return &Table{pool} }

// Connect makes a Table with a pool of its own, of at most conns connections. It does not connect before it is used. Close it.
func Connect(ctx context.Context, databaseURL string, conns int32) (*Table, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err) // pgx leaves the password out
	}
	config.MaxConns = conns
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "forgequeue-relay"
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return Open(pool), nil
}

// Ping is nil if the database answers.
func (t *Table) Ping(ctx context.Context) error {
	if err := t.pool.Ping(ctx); err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	return nil
}

// Close closes the pool.
func (t *Table) Close() { t.pool.Close() }

// Refusal is why the server refused a row.
type Refusal struct {
	// Code is a code of the API, or one of this package: outcome_unknown, unreadable.
	Code string `json:"code"`
	// Status is the HTTP status; 0 for none.
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	RequestID string `json:"request_id,omitzero"`
}

// FailedRow is a row that the server refused for good.
type FailedRow struct {
	ID          int64           `json:"id,string"`
	Type        string          `json:"type"`
	Queue       string          `json:"queue"`
	OrderingKey *string         `json:"ordering_key"`
	CreatedAt   time.Time       `json:"created_at"`
	FailedAt    time.Time       `json:"failed_at"`
	Error       Refusal         `json:"error"`
	Job         json.RawMessage `json:"job"`
}

const failedSQL = `
SELECT id, coalesce(job ->> 'type', '') AS type, coalesce(job ->> 'queue', 'default') AS queue, ordering_key, created_at, ended_at AS failed_at, error, job
FROM forgequeue_outbox
WHERE state = 'failed' AND id > $1
ORDER BY id
LIMIT $2`

// Failed lists failed rows by id, those after an id, at most limit of them.
func (t *Table) Failed(ctx context.Context, after int64, limit int) ([]FailedRow, error) {
	rows, err := t.pool.Query(ctx, failedSQL, after, limit)
	if err != nil {
		return nil, fmt.Errorf("outbox: failed: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByName[FailedRow])
	if err != nil {
		return nil, fmt.Errorf("outbox: failed: %w", err)
	}
	return list, nil
}

const retrySQL = `
UPDATE forgequeue_outbox
SET state = 'waiting', ended_at = NULL, not_before = statement_timestamp(), refusals = 0
WHERE state = 'failed' AND ($1 OR id = ANY($2))
RETURNING id`

// Retry makes failed rows wait again, and returns the ids of those that it found failed.
func (t *Table) Retry(ctx context.Context, ids ...int64) ([]int64, error) {
	return t.change(ctx, retrySQL, false, ids)
}

// RetryAll makes all failed rows wait again.
func (t *Table) RetryAll(ctx context.Context) ([]int64, error) {
	return t.change(ctx, retrySQL, true, nil)
}

const discardSQL = `
DELETE FROM forgequeue_outbox
WHERE state = 'failed' AND ($1 OR id = ANY($2))
RETURNING id`

// Discard deletes failed rows, so that rows after them in the order of their keys go on. It returns the ids of those
// that it found failed.
func (t *Table) Discard(ctx context.Context, ids ...int64) ([]int64, error) {
	return t.change(ctx, discardSQL, false, ids)
}

// change runs a statement on failed rows, and wakes the relays in the same transaction.
func (t *Table) change(ctx context.Context, statement string, all bool, ids []int64) (changed []int64, err error) {
	err = pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, statement, all, ids)
		if err != nil {
			return err
		}
		if changed, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `SELECT pg_notify('forgequeue_outbox', '')`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	return changed, nil
}

// Stats is what the outbox holds.
type Stats struct {
	// Waiting rows are to be sent, Sending ones are in a batch, Failed ones were refused for good.
	Waiting int64 `json:"waiting"`
	Sending int64 `json:"sending"`
	Failed  int64 `json:"failed"`
	// Oldest is how long ago the oldest row that waits or is being sent was inserted; 0 without one.
	Oldest time.Duration `json:"oldest"`
}

const statsSQL = `
SELECT
  count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'sending') AS sending,
  count(*) FILTER (WHERE state = 'failed') AS failed,
  coalesce(greatest(clock_timestamp() - min(created_at) FILTER (WHERE state <> 'failed'), '0'), '0') AS oldest
FROM forgequeue_outbox
WHERE state <> 'sent'`

// Stats counts the rows: an index scan over those that are not sent.
func (t *Table) Stats(ctx context.Context) (Stats, error) {
	rows, err := t.pool.Query(ctx, statsSQL)
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	stats, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[Stats])
	if err != nil {
		return Stats{}, fmt.Errorf("outbox: stats: %w", err)
	}
	return stats, nil
}
