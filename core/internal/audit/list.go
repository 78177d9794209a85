package audit

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Two statements, each with its own index: one with "or all tenants" in it would use neither.
const (
	auditOfTenantSQL = `WITH chunk AS MATERIALIZED (
  SELECT * FROM audit_log WHERE tenant_id = @tenant_id AND uuid_send(id) < uuid_send(@before::uuid)
  ORDER BY uuid_send(id) DESC LIMIT @chunk
)` + auditJudgedSQL
	auditOfAllSQL = `WITH chunk AS MATERIALIZED (
  SELECT * FROM audit_log WHERE @tenant_id::uuid IS NULL AND id < @before ORDER BY id DESC LIMIT @chunk
)` + auditJudgedSQL
	auditJudgedSQL = `
SELECT * FROM (
  SELECT *, COALESCE((@action::text IS NULL OR action = @action)
         AND (@object::text IS NULL OR object = @object)
         AND (@key_id::text IS NULL OR key_id = @key_id)
         AND (@after::timestamptz IS NULL OR at > @after)
         AND (@until::timestamptz IS NULL OR at < @until), false) AS hit,
         lead(id) OVER (ORDER BY id DESC) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY id DESC`
)

type auditRow struct {
	ID        uuid.UUID
	TenantID  *tenant.ID
	ActorKind string
	KeyID     *string
	UserID    *string
	Action    string
	Object    *string
	Detail    []byte
	At        time.Time
	Hit       bool
	Last      bool
	Read      int64
}

func (r *auditRow) wire() api.AuditEntry {
	entry := api.AuditEntry{
		ID: r.ID.String(), Actor: api.AuditActor{Kind: r.ActorKind, KeyID: r.KeyID, User: r.UserID},
		Action: r.Action, Object: r.Object, Detail: r.Detail, At: api.At(r.At),
	}
	if r.TenantID != nil {
		entry.Tenant = store.NullIfEmpty(r.TenantID.String())
	}
	return entry
}

// Audit gives a page of a tenant's audit entries that match, newest first; owner nil is the
// operator's view of all. Like every list it reads at most api.MaxPageRows rows.
func (s *Log) Audit(ctx context.Context, owner *tenant.ID, filter api.AuditFilter, size int, token string) (api.Page[api.AuditEntry], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	sql := auditOfAllSQL
	if owner != nil {
		sql = auditOfTenantSQL
	}
	args := store.Args{
		"tenant_id": owner, "action": store.NullIfEmpty(filter.Action), "object": store.NullIfEmpty(filter.Object), "key_id": store.NullIfEmpty(filter.KeyID),
		"after": store.TimeOrNil(filter.After), "until": store.TimeOrNil(filter.Before),
	}
	return store.PageOf(ctx, s.Store, "audit", sql, args, size, token, (*auditRow).wire)
}

func (r *auditRow) Match() (id uuid.UUID, hit bool, read int64) { return r.ID, r.Hit, r.Read }
