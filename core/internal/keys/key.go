package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Errors that a caller may act on, besides those of package store.
var (
	// ErrExpiryPast: a new key's expiry is in the past.
	ErrExpiryPast = errors.New("keys: expiry past")
	// ErrNotAdmin: the key that asks for a change of keys has ended, or lacks the scope admin.
	ErrNotAdmin = errors.New("keys: not an admin")
	// ErrOwnKey: a key asks for its own revocation.
	ErrOwnKey = errors.New("keys: own key")
	// ErrTooMany: the tenant has reached its bound of keys.
	ErrTooMany = errors.New("keys: too many keys")
)

const createKeySQL = `
WITH deleting AS MATERIALIZED ( -- Citus takes no INSERT whose SELECT reads tables in a subquery
  SELECT 1 AS one FROM tenants WHERE id = @tenant_id AND deleting_at IS NOT NULL
), created AS (
  INSERT INTO api_keys (key_id, kind, tenant_id, user_id, scopes, secret_hmac, expires_at, created_at, version)
  SELECT @key_id, @kind, @tenant_id, @user_id, @scopes, @secret_hmac, @expires_at, statement_timestamp(), @version
  WHERE (@expires_at::timestamptz IS NULL OR @expires_at > statement_timestamp()) AND NOT EXISTS (SELECT one FROM deleting)
  -- a repeated call whose first answer was lost: same id, same secret
  ON CONFLICT (key_id) DO UPDATE SET key_id = EXCLUDED.key_id
  RETURNING created_at
)
SELECT created_at FROM created`

// Create stores a key that the gateway drew, of any tenant or of the platform. Core gets only the
// HMAC of its secret. An unknown tenant is ErrNotFound, an expiry in the past ErrExpiryPast, one key
// more than api.MaxKeys ErrTooMany.
func (s *Keys) Create(ctx context.Context, key hop.CreateKeyRequest) (api.Key, error) {
	return s.createKey(ctx, nil, key)
}

// CreateOwn is CreateKey for a tenant's own key: by is the id of the key that asks, nil for a person, see keyChange.
func (s *Keys) CreateOwn(ctx context.Context, owner tenant.ID, by *string, key hop.CreateKeyRequest) (api.Key, error) {
	key.Kind, key.Tenant = hop.PrincipalTenant, owner.String()
	return s.createKey(ctx, by, key)
}

func (s *Keys) createKey(ctx context.Context, by *string, key hop.CreateKeyRequest) (api.Key, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{
		"key_id": key.KeyID, "kind": key.Kind, "tenant_id": nil, "user_id": key.User,
		"scopes": key.Scopes, "secret_hmac": key.SecretHMAC, "expires_at": nil,
	}
	owner, noTenant := uuid.Parse(key.Tenant)
	if key.Tenant != "" {
		args["tenant_id"] = key.Tenant
	}
	if key.ExpiresAt != nil {
		args["expires_at"] = key.ExpiresAt.Time
	}
	var made []time.Time
	err := s.InTx(ctx, func(tx pgx.Tx) (err error) {
		if args["version"], err = store.NextVersion(ctx, tx); err != nil {
			return err
		}
		if noTenant == nil {
			if err := s.admit(ctx, tx, keyChange{owner, by, key.KeyID}, true); err != nil {
				return err
			}
		}
		rows, err := tx.Query(ctx, createKeySQL, args)
		if err != nil {
			return err
		}
		if made, err = pgx.CollectRows(rows, pgx.RowTo[time.Time]); err != nil || len(made) == 0 {
			return err
		}
		return audit.Record(ctx, tx, keyEvent(key))
	})
	if err != nil {
		var refused *pgconn.PgError
		if errors.As(err, &refused) && refused.Code == "23503" { // foreign_key_violation
			return api.Key{}, store.ErrNotFound
		}
		return api.Key{}, fmt.Errorf("keys: create key: %w", err)
	}
	if len(made) == 0 {
		if noTenant == nil {
			if found, err := (&tenants.Tenants{Store: s.Store}).Get(ctx, owner); err == nil && found.Deletion != nil {
				return api.Key{}, tenants.ErrDeleted
			}
		}
		return api.Key{}, ErrExpiryPast
	}
	return api.Key{
		KeyID: key.KeyID, Tenant: store.NullIfEmpty(key.Tenant), User: key.User, Scopes: key.Scopes, ExpiresAt: key.ExpiresAt, CreatedAt: api.At(made[0]),
	}, nil
}

// keyEvent is the audit event of a key, without anything derived from its secret.
func keyEvent(key hop.CreateKeyRequest) audit.Event {
	done := audit.Event{Action: api.AuditKeyCreate, Object: key.KeyID, Detail: map[string]any{
		"kind": key.Kind, "user": key.User, "scopes": key.Scopes, "expires_at": key.ExpiresAt,
	}}
	if owner, err := uuid.Parse(key.Tenant); err == nil {
		done.Tenant = &owner
	}
	return done
}

// A revoked or expired key is not found: the caller cannot distinguish it from an unknown one.
const lookupKeySQL = `
SELECT k.key_id, k.kind, k.secret_hmac, k.tenant_id, k.user_id, k.scopes, k.expires_at,
       floor(extract(epoch FROM k.expires_at - statement_timestamp()) * 1000)::bigint AS expires_in_ms, k.sessions_ended, t.name AS tenant_name, t.overrides, t.types_version, t.cell,
       p.name AS plan, p.limits, p.visibility_timeout_ms_max
FROM api_keys k
LEFT JOIN tenants t ON t.id = k.tenant_id
LEFT JOIN plans p ON p.name = t.plan
WHERE k.key_id = @key_id
  AND k.revoked_at IS NULL AND t.deleting_at IS NULL
  AND (k.expires_at IS NULL OR k.expires_at > statement_timestamp())`

const lookupTenantSQL = `
SELECT t.name AS tenant_name, t.overrides, t.types_version, t.cell, p.name AS plan, p.limits, p.visibility_timeout_ms_max
FROM tenants t JOIN plans p ON p.name = t.plan
WHERE t.id = @tenant_id AND t.deleting_at IS NULL`

type keyRow struct {
	KeyID         string
	Kind          string
	SecretHmac    []byte
	TenantID      *tenant.ID
	UserID        *string
	Scopes        []string
	ExpiresAt     *time.Time
	ExpiresInMs   *int64
	SessionsEnded int64

	tenantRow
}

// tenantRow is what a key has of its tenant.
type tenantRow struct {
	TenantName             *string
	Overrides              []byte
	TypesVersion           *int64
	Cell                   *string
	Plan                   *string
	Limits                 []byte
	VisibilityTimeoutMsMax *int64
}

// Lookup gives what the gateway needs to check a key of any tenant.
func (s *Keys) Lookup(ctx context.Context, keyID string) (hop.KeyRecord, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[keyRow], lookupKeySQL, store.Args{"key_id": keyID})
	if err != nil {
		return hop.KeyRecord{}, fmt.Errorf("keys: key: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return hop.KeyRecord{}, store.ErrNotFound
	}
	row := rows[0]
	key := hop.KeyRecord{
		KeyID: row.KeyID, Kind: row.Kind, SecretHMAC: row.SecretHmac, Scopes: row.Scopes, ExpiresAt: api.AtOrNil(row.ExpiresAt),
		ExpiresInMS: row.ExpiresInMs, SessionsEnded: row.SessionsEnded,
	}
	if row.UserID != nil {
		key.User = *row.UserID
	}
	if row.TenantID != nil && row.Plan != nil {
		row.fill(&key, *row.TenantID)
	}
	return key, nil
}

// LookupTenant gives what a key has of its tenant; a deleted tenant is ErrNotFound.
func (s *Keys) LookupTenant(ctx context.Context, owner tenant.ID) (hop.KeyRecord, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[tenantRow], lookupTenantSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return hop.KeyRecord{}, fmt.Errorf("keys: tenant: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return hop.KeyRecord{}, store.ErrNotFound
	}
	key := hop.KeyRecord{Kind: hop.PrincipalTenant, SecretHMAC: []byte{}, Scopes: []string{}}
	rows[0].fill(&key, owner)
	return key, nil
}

// fill adds the tenant's part to a key.
func (r *tenantRow) fill(key *hop.KeyRecord, owner tenant.ID) {
	key.Tenant, key.TenantName = owner.String(), store.OrElse(r.TenantName, "")
	plan := tenants.PlanFrom(*r.Plan, r.Limits, r.VisibilityTimeoutMsMax)
	key.Plan, key.Overrides = &plan, &api.Overrides{}
	_ = json.Unmarshal(r.Overrides, key.Overrides) // written by tenants.Patch alone
	key.TypesVersion, key.Cell = store.OrElse(r.TypesVersion, 0), store.OrElse(r.Cell, "")
}

const listKeysSQL = `
SELECT key_id, tenant_id, user_id, scopes, expires_at, created_at
FROM api_keys
WHERE tenant_id = @tenant_id AND key_id > @after AND revoked_at IS NULL
ORDER BY key_id
LIMIT @size`

// List lists a tenant's keys that are not revoked, by key id; after is the last one of the
// previous page.
func (s *Keys) List(ctx context.Context, owner tenant.ID, after string, size int) ([]api.Key, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	scan := func(row pgx.CollectableRow) (api.Key, error) {
		var key api.Key
		var tenantID tenant.ID
		var expires *time.Time
		var created time.Time
		err := row.Scan(&key.KeyID, &tenantID, &key.User, &key.Scopes, &expires, &created)
		key.Tenant, key.ExpiresAt, key.CreatedAt = store.NullIfEmpty(tenantID.String()), api.AtOrNil(expires), api.At(created)
		return key, err
	}
	keys, err := store.Query(ctx, s.Store, scan, listKeysSQL, store.Args{"tenant_id": owner, "after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("keys: list keys: %w", store.NotApplied(err))
	}
	return keys, nil
}

const revokeKeySQL = `
UPDATE api_keys SET revoked_at = LEAST(revoked_at, statement_timestamp()), version = @version WHERE key_id = @key_id RETURNING tenant_id`

// Revoke revokes a key, of any tenant. A repeat changes nothing.
func (s *Keys) Revoke(ctx context.Context, keyID string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		var owner *tenant.ID
		err = tx.QueryRow(ctx, revokeKeySQL, store.Args{"key_id": keyID, "version": version}).Scan(&owner)
		if errors.Is(err, pgx.ErrNoRows) {
			return store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: owner, Action: api.AuditKeyRevoke, Object: keyID})
	})
	if err != nil {
		return fmt.Errorf("keys: revoke key: %w", err)
	}
	return nil
}

const revokeOwnKeySQL = `
UPDATE api_keys SET revoked_at = LEAST(revoked_at, statement_timestamp()), version = @version WHERE tenant_id = @tenant_id AND key_id = @key_id`

// RevokeOwn revokes a key of a tenant: by is the id of the key that asks, nil for a person, see keyChange. A repeat
// changes nothing. The key that asks itself is ErrOwnKey, so that a tenant's last key with the scope
// admin is not lost by mistake; one of another tenant is ErrNotFound, as an unknown one.
func (s *Keys) RevokeOwn(ctx context.Context, owner tenant.ID, by *string, keyID string) error {
	if by != nil && *by == keyID {
		return ErrOwnKey
	}
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		if err := s.admit(ctx, tx, keyChange{owner, by, keyID}, false); err != nil {
			return err
		}
		done, err := tx.Exec(ctx, revokeOwnKeySQL, store.Args{"tenant_id": owner, "key_id": keyID, "version": version})
		if err == nil && done.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditKeyRevoke, Object: keyID})
	})
	if err != nil {
		return fmt.Errorf("keys: revoke own key: %w", err)
	}
	return nil
}

const endSessionsSQL = `
UPDATE api_keys SET sessions_ended = sessions_ended + 1, version = @version WHERE tenant_id = @tenant_id AND key_id = @key_id AND revoked_at IS NULL`

// EndSessions ends all console sessions of a tenant's key that have begun before. A count says which are
// over, and not a time: the clocks of gateways and database differ.
func (s *Keys) EndSessions(ctx context.Context, owner tenant.ID, keyID string) error {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		version, err := store.NextVersion(ctx, tx)
		if err != nil {
			return err
		}
		done, err := tx.Exec(ctx, endSessionsSQL, store.Args{"tenant_id": owner, "key_id": keyID, "version": version})
		if err == nil && done.RowsAffected() == 0 {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditSessionsEnd, Object: keyID})
	})
	if err != nil {
		return fmt.Errorf("keys: end sessions: %w", err)
	}
	return nil
}
