package keys

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

const (
	forgetCopiesSQL = `DELETE FROM api_keys`
	// version is the home's own.
	copyKeysSQL = `
WITH given AS MATERIALIZED (
  SELECT k.* FROM unnest(@rows::text[]) AS sent (row), jsonb_populate_record(NULL::api_keys, sent.row::jsonb || '{"version": 0}') AS k
  WHERE k.tenant_id IS NULL OR EXISTS (SELECT FROM tenants WHERE id = k.tenant_id)
)
INSERT INTO api_keys SELECT * FROM given
ON CONFLICT (key_id) DO UPDATE
SET kind = EXCLUDED.kind, tenant_id = EXCLUDED.tenant_id, user_id = EXCLUDED.user_id, scopes = EXCLUDED.scopes, secret_hmac = EXCLUDED.secret_hmac,
    expires_at = EXCLUDED.expires_at, revoked_at = EXCLUDED.revoked_at, sessions_ended = EXCLUDED.sessions_ended`
	forgetEndedSQL = `
DELETE FROM api_keys WHERE LEAST(revoked_at, expires_at) < statement_timestamp() - interval '1 day'`
)

// Copy makes a cell's copies of keys, rows as the home cell has them, and forgets copies of keys that ended more than a day ago.
func Copy(ctx context.Context, tx pgx.Tx, rows []json.RawMessage) error {
	if len(rows) == 0 {
		return nil
	}
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = string(row)
	}
	if _, err := tx.Exec(ctx, copyKeysSQL, store.Args{"rows": texts}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, forgetEndedSQL)
	return err
}

// ForgetCopies forgets all copies, before they are made again.
func ForgetCopies(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, forgetCopiesSQL)
	return err
}
