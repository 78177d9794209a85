//go:build mutant_count_beside_lock

package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// The count is read beside the lock, in the statement that waits for it.
func (s *Store) lockThenRead(ctx context.Context, tx pgx.Tx, locks pgx.StrictNamedArgs, keys []CountKey) (*tally, error) {
	args := countArgs(keys)
	args["locks"] = locks["locks"]
	rows, err := tx.Query(ctx, `
WITH locked AS MATERIALIZED (SELECT count(*) AS n FROM (`+lockTenantsSQL+`) AS taken)
SELECT counted.* FROM locked CROSS JOIN LATERAL (`+readUsageSQL+`) AS counted WHERE locked.n > 0`, args)
	if err != nil {
		return nil, err
	}
	return collectUsage(keys, rows)
}
