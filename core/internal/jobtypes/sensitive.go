package jobtypes

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const sensitiveSQL = `
SELECT types_version AS version, EXISTS (SELECT FROM job_types WHERE tenant_id = @tenant_id AND sensitive) AS some
FROM tenants WHERE id = @tenant_id`

type sensitiveRow struct {
	Version int64
	Some    bool
}

// Sensitive gives the version of a tenant's types, and whether any kept version of them has something sensitive.
func (t *Types) Sensitive(ctx context.Context, owner tenant.ID) (version int64, some bool, err error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowToStructByName[sensitiveRow], sensitiveSQL, store.Args{"tenant_id": owner})
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("jobtypes: sensitive: %w", store.NotApplied(err))
	case len(found) == 0: // the tenant is gone, with its jobs
		return 0, false, nil
	}
	return found[0].Version, found[0].Some, nil
}

const sensitiveVersionsSQL = `
SELECT type, payload_schema, result_schema FROM job_types
WHERE tenant_id = @tenant_id AND type IN (SELECT s.type FROM job_types AS s WHERE s.tenant_id = @tenant_id AND s.sensitive)
ORDER BY type, version DESC`

// Schemas are those of a version of a type; nil where it has none.
type Schemas struct {
	Type                        string
	PayloadSchema, ResultSchema []byte
}

// SensitiveVersions gives all kept versions of the types of which one has something sensitive.
func (t *Types) SensitiveVersions(ctx context.Context, owner tenant.ID) ([]Schemas, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowToStructByName[Schemas], sensitiveVersionsSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return nil, fmt.Errorf("jobtypes: sensitive versions: %w", store.NotApplied(err))
	}
	return found, nil
}

const typeOfSQL = `
SELECT type FROM jobs WHERE id = @id AND tenant_id = @tenant_id
UNION ALL
SELECT type FROM finished_jobs WHERE id = @id AND finished_at >= @since AND tenant_id = @tenant_id
UNION ALL
SELECT type FROM dead_letters WHERE id = @id AND tenant_id = @tenant_id`

// TypeOf gives the type of a tenant's job; empty where there is none.
func (t *Types) TypeOf(ctx context.Context, owner tenant.ID, id uuid.UUID) (string, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowTo[string], typeOfSQL,
		store.Args{"id": id, "tenant_id": owner, "since": retention.Since(id)})
	if err != nil || len(found) == 0 {
		return "", store.NotApplied(err)
	}
	return found[0], nil
}
