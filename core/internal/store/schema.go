package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// OwnSchemaSQL is the oid of the schema that has core's tables: the first of search_path. Cells may be
// schemas of one database.
const OwnSchemaSQL = `(SELECT oid FROM pg_namespace WHERE nspname = current_schema())`

const searchPathSQL = `SELECT current_setting('search_path'), COALESCE(current_schema(), '')`

// missingSchema is the schema that the connection string's search_path names first, if there is none
// of the name; "" otherwise. The tables are not to be found, or made, in the next schema of the path:
// another cell's may be there.
func (s *Store) missingSchema(ctx context.Context) (string, error) {
	conn, err := s.Acquire(ctx)
	if err != nil {
		return "", err
	}
	defer conn.Release()
	var path, current string
	if err := conn.QueryRow(ctx, searchPathSQL).Scan(&path, &current); err != nil {
		return "", Classify(err)
	}
	if wanted := firstSchema(path); wanted != current {
		return wanted, nil
	}
	return "", nil
}

// makeSchema creates the missing schema. Citus' setting would make it a distributed one at once.
func (s *Store) makeSchema(ctx context.Context) error {
	wanted, err := s.missingSchema(ctx)
	if err != nil || wanted == "" {
		return err
	}
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT set_config('citus.enable_schema_based_sharding', 'off', true) WHERE `+withCitusSQL); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS `+pgx.Identifier{wanted}.Sanitize())
		return err
	})
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (refused.Code == "42P06" || refused.Code == "23505") { // made at the same time
		return nil
	}
	if ok && refused.Code == "42501" {
		return fmt.Errorf("store: search_path names the schema %s, which does not exist, and the role may not create it; "+
			"create it, or GRANT CREATE ON DATABASE … TO the role: %w", wanted, err)
	}
	return err
}

// firstSchema is the first name of a search_path; "" for none, and for the role's own schema, which
// need not exist.
func firstSchema(path string) string {
	path = strings.TrimSpace(path)
	if quoted, ok := strings.CutPrefix(path, `"`); ok {
		name := ""
		for {
			part, rest, closed := strings.Cut(quoted, `"`)
			name += part
			if !closed || !strings.HasPrefix(rest, `"`) {
				break
			}
			name, quoted = name+`"`, rest[1:]
		}
		path = name
	} else {
		path, _, _ = strings.Cut(path, ",")
		path = strings.ToLower(strings.TrimSpace(path))
	}
	if path == "$user" {
		return ""
	}
	return path
}
