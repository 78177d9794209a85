package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// identitySQL: a standby that was promoted has its primary's identifier, a restored dump that of its own server.
const identitySQL = `
SELECT (SELECT system_identifier FROM pg_control_system()) || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())
       || '/' || current_schema()`

// Identity tells the tables of this store from those of any other: of another server, database or schema.
func (s *Store) Identity(ctx context.Context) (string, error) {
	found, err := Query(WithClass(ctx, ClassLists), s, pgx.RowTo[string], identitySQL, Args{})
	if err != nil {
		return "", fmt.Errorf("store: identity: %w", NotApplied(err))
	}
	sum := sha256.Sum256([]byte(found[0]))
	return hex.EncodeToString(sum[:8]), nil
}
