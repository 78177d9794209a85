package celltest

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
)

// Lock blocks every statement on a table until the test unlocks it.
func (f *Fixture) Lock(table string) (unlock func()) {
	f.Helper()
	conn := Connect(f, f.URL)
	if _, err := conn.Exec(f.Context(), `BEGIN; LOCK TABLE `+table+` IN ACCESS EXCLUSIVE MODE`); err != nil {
		f.Fatal(err)
	}
	return func() { _ = conn.Close(context.WithoutCancel(f.Context())) }
}

// WaitForLocks counts the sessions that wait for a lock.
func (f *Fixture) WaitForLocks() int {
	return f.CountOf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// Within gives a context that ends after d, or with the test.
func (f *Fixture) Within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), d)
	f.Cleanup(cancel)
	return ctx
}

// OpenWriter begins a transaction that has written and stays open.
func (f *Fixture) OpenWriter() pgx.Tx {
	f.Helper()
	tx, err := Connect(f, f.URL).Begin(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	if _, err := tx.Exec(f.Context(), `SELECT pg_current_xact_id()`); err != nil {
		f.Fatal(err)
	}
	return tx
}

// Backfill backfills a count until nothing is left, as the sweep does.
func (f *Fixture) Backfill(key caps.CountKey) {
	f.Helper()
	Eventually(f, "nothing is left to backfill", func() bool {
		counted, more, err := f.Store.Counts.Backfill(f.Context(), key)
		if err != nil {
			f.Fatal(err)
		}
		return counted == 0 && !more
	})
}

// Live counts the rows of live jobs.
func (f *Fixture) Live() (n int64) {
	f.Helper()
	if err := f.Direct.QueryRow(f.Context(), `SELECT count(*) FROM jobs`).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}
