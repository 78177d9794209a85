package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

const nextVersionSQL = `UPDATE directory SET version = version + 1 RETURNING version`

// NextVersion gives the version that a change of the directory (plans, tenants, keys) notes in its rows. It is to be the
// first statement of its transaction: changes wait for each other, so that versions commit in their order and a reader
// that has seen one has seen all before it.
func NextVersion(ctx context.Context, tx pgx.Tx) (version int64, err error) {
	err = tx.QueryRow(ctx, nextVersionSQL).Scan(&version)
	return version, err
}
