package store_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// What is sent with BEGIN, what runs alone and what is sent with COMMIT are one transaction: a
// later part sees an earlier one, and a failure of any leaves nothing and a connection that works.
func TestShortTxIsOneTransaction(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`CREATE TABLE parts (n integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)`)
	const insert, wrong = `INSERT INTO parts SELECT $1::integer`, `SELECT 1 / ($1::integer - 4)`
	run := func(first, between, last string) error {
		seen := 0
		err := f.Store.InShortTx(t.Context(), func(batch *pgx.Batch) {
			batch.Queue(first, 4)
		}, func(tx pgx.Tx) (*pgx.Batch, error) {
			if _, err := tx.Exec(t.Context(), between, 4); err != nil {
				return nil, err
			}
			batch := &pgx.Batch{}
			batch.Queue(`SELECT count(*) FROM parts`).QueryRow(func(row pgx.Row) error { return row.Scan(&seen) })
			batch.Queue(last, 4)
			return batch, nil
		})
		if err == nil && seen == 0 {
			t.Error("the last batch does not see what was sent with BEGIN")
		}
		return err
	}
	stored := func() int { return f.CountOf(`SELECT count(*) FROM parts`) }
	const nothing = `SELECT $1::integer`
	for _, c := range []struct{ name, first, between, last string }{
		{"with BEGIN", wrong, insert, insert},
		{"between", insert, wrong, insert},
		{"with COMMIT", insert, nothing, wrong},
		{"the COMMIT itself", insert, nothing, insert}, // the same number twice, seen when it commits
	} {
		if err := run(c.first, c.between, c.last); err == nil || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("a failure %s: %v, want one that is definite", c.name, err)
		}
		if n := stored(); n != 0 {
			t.Fatalf("after a failure %s %d rows are stored", c.name, n)
		}
	}
	if err := run(insert, nothing, nothing); err != nil || stored() != 1 {
		t.Errorf("%v, %d rows", err, stored())
	}
	if busy := f.Store.Connections().Used; busy != 0 {
		t.Errorf("%d connections are still in use", busy)
	}
}
