package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// collationSQL gives no row for a collation without versions.
const collationSQL = `
SELECT datcollversion, COALESCE(pg_database_collation_actual_version(oid), 'none')
FROM pg_database
WHERE datname = current_database() AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid) AND datcollversion IS NOT NULL`

// ChangedCollation says that the operating system's collation is no longer the one with which the database was made; ""
// if it is.
func (s *Store) ChangedCollation(ctx context.Context) (string, error) {
	type versions struct{ Made, Now string }
	found, err := Query(ctx, s, pgx.RowToStructByPos[versions], collationSQL, Args{})
	if err != nil {
		return "", fmt.Errorf("store: collation: %w", NotApplied(err))
	}
	if len(found) == 0 {
		return "", nil
	}
	return fmt.Sprintf("the database was made with version %s of its collation, the server has %s; "+
		"REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION", found[0].Made, found[0].Now), nil
}
