package bench

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5" //nolint:depguard // holds a snapshot beside the service, which is what is measured
)

// openSnapshot opens a transaction with a snapshot of the database and keeps it open, as a report, a backup or a forgotten
// session does. VACUUM cannot remove rows that died after it. release ends it.
func openSnapshot(ctx context.Context, databaseURL string) (release func(), err error) {
	connection, err := pgx.Connect(ctx, databaseURL)
	if err != nil {
		return nil, fmt.Errorf("the database on which the snapshot is held: %w", err)
	}
	end := func() { _ = connection.Close(context.WithoutCancel(ctx)) } // it closes even if it returns an error
	tx, err := connection.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err == nil {
		// The services' role may not sit idle in a transaction; this session must.
		_, err = tx.Exec(ctx, "SET LOCAL idle_in_transaction_session_timeout = 0")
	}
	if err == nil {
		// The first statement takes the snapshot, and no lock on the tables of jobs.
		_, err = tx.Exec(ctx, "SELECT 1 FROM pg_class LIMIT 1")
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("the snapshot cannot be held: %w", err)
	}
	return end, nil
}
