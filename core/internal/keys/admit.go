package keys

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// keptEndedKeys is how many revoked and expired keys of a tenant are remembered, those that ended last:
// a repeated revocation finds its key, and the table stays small whoever makes and revokes keys in a loop.
const keptEndedKeys = 1000

// keyChange is a change of a tenant's keys.
type keyChange struct {
	owner tenant.ID
	// by is the id of the tenant's key that asks for it; nil for the operator, and for a person with the scope admin.
	by    *string
	keyID string
}

const (
	checkKeysSQL = `
SELECT count(*) FILTER (WHERE valid AND key_id <> @key_id) AS others,
       count(*) FILTER (WHERE NOT valid) AS ended,
       COALESCE(bool_or(valid AND key_id = @by AND user_id IS NULL AND @scope = ANY(scopes)), false) AS admin
FROM (
  SELECT key_id, user_id, scopes, revoked_at IS NULL AND COALESCE(expires_at > statement_timestamp(), true) AS valid
  FROM api_keys WHERE tenant_id = @tenant_id
) AS keys`

	// LEAST ignores nulls.
	forgetKeysSQL = `
DELETE FROM api_keys
WHERE key_id = ANY(ARRAY(SELECT key_id FROM api_keys
                         WHERE tenant_id = @tenant_id AND (revoked_at IS NOT NULL OR expires_at <= statement_timestamp())
                         ORDER BY LEAST(revoked_at, expires_at) DESC, key_id OFFSET @kept))`
)

// admit takes the tenant's lock, under which its keys are changed one after the other, and says
// whether the change may be made. A gateway trusts a key for up to 30 s after its last look at it, so
// whether the one that asks is still valid is asked here: a revoked key makes no others, and of two
// keys that revoke each other at the same time one stays. It is ErrNotAdmin where the key that asks
// has ended, is bound to a user, or lacks the scope admin; ErrTooMany where a new one would be
// above the bound.
func (s *Keys) admit(ctx context.Context, tx pgx.Tx, c keyChange, creates bool) error {
	if _, err := tx.Exec(ctx, store.AdvisoryLockSQL, store.Args{"key": s.LockKey(store.LockAPIKeys, c.owner)}); err != nil {
		return err
	}
	var others, ended int
	var admin bool
	args := store.Args{"tenant_id": c.owner, "key_id": c.keyID, "by": c.by, "scope": api.ScopeAdmin}
	if err := tx.QueryRow(ctx, checkKeysSQL, args).Scan(&others, &ended, &admin); err != nil {
		return err
	}
	switch {
	case c.by != nil && !admin:
		return ErrNotAdmin
	case creates && others >= api.MaxKeys:
		return ErrTooMany
	case creates && ended > keptEndedKeys:
		_, err := tx.Exec(ctx, forgetKeysSQL, store.Args{"tenant_id": c.owner, "kept": keptEndedKeys})
		return err
	}
	return nil
}
