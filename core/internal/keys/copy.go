package keys

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Copy is a key as one value: only PostgreSQL looks into the row.
type Copy struct {
	KeyID string
	Row   string
}

const (
	// @cell is null in a cell, which has the keys of its own tenants only. Cells have no home tenants.
	keyPageSQL = `
SELECT k.key_id, to_jsonb(k)::text AS row
FROM api_keys AS k LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.key_id > @after AND (@until::text IS NULL OR k.key_id <= @until)
  AND (@cell::text IS NULL OR k.tenant_id IS NULL OR t.cell = @cell)
ORDER BY k.key_id
LIMIT @size`
	forgetKeyCopiesSQL = `
DELETE FROM api_keys WHERE key_id > @after AND (@until::text IS NULL OR key_id <= @until) AND key_id <> ALL(@ids::text[])`
	// A tenant that is not copied yet gets its keys the next time.
	copyKeysSQL = `
WITH known AS MATERIALIZED (
  SELECT k.* FROM unnest(@rows::text[]) AS given (row), jsonb_populate_record(NULL::api_keys, given.row::jsonb) AS k
  WHERE k.tenant_id IS NULL OR EXISTS (SELECT 1 FROM tenants WHERE id = k.tenant_id)
)
INSERT INTO api_keys SELECT * FROM known
ON CONFLICT (key_id) DO UPDATE
SET kind = EXCLUDED.kind, tenant_id = EXCLUDED.tenant_id, user_id = EXCLUDED.user_id, scopes = EXCLUDED.scopes, secret_hmac = EXCLUDED.secret_hmac,
    expires_at = EXCLUDED.expires_at, revoked_at = EXCLUDED.revoked_at, sessions_ended = EXCLUDED.sessions_ended`
)

// CopyPage gives a page of keys by id, up to until where it is not empty: in the home cell those of
// the platform and of the tenants in a cell, with "" all that there are.
func (s *Keys) CopyPage(ctx context.Context, cell, after, until string, size int) ([]Copy, error) {
	args := store.Args{"after": after, "until": nil, "cell": nil, "size": size}
	if cell != "" {
		args["cell"] = cell
	}
	if until != "" {
		args["until"] = until
	}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), s.Store, pgx.RowToStructByName[Copy], keyPageSQL, args)
	if err != nil {
		return nil, fmt.Errorf("keys: keys to copy: %w", store.NotApplied(err))
	}
	return rows, nil
}

// Copy makes the copies of the keys between after and until ("" is the end) as home gives them,
// and forgets those that home has no more.
func (s *Keys) Copy(ctx context.Context, after, until string, home func(context.Context) ([]Copy, error)) error {
	err := audit.Copying(ctx, s.Store, func(ctx context.Context, tx pgx.Tx) error {
		given, err := home(ctx)
		if err != nil {
			return err
		}
		ids, rows := make([]string, len(given)), make([]string, len(given))
		for i := range given {
			ids[i], rows[i] = given[i].KeyID, given[i].Row
		}
		args := store.Args{"after": after, "until": nil, "ids": ids}
		if until != "" {
			args["until"] = until
		}
		if _, err := tx.Exec(ctx, forgetKeyCopiesSQL, args); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, copyKeysSQL, store.Args{"rows": rows})
		return err
	})
	if err != nil {
		return fmt.Errorf("keys: copy keys: %w", err)
	}
	return nil
}
