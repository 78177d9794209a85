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
SELECT hides.type, (SELECT max(revision) FROM job_types AS kept WHERE kept.tenant_id = @tenant_id AND kept.type = hides.type) AS revision
FROM (SELECT DISTINCT type FROM job_types WHERE tenant_id = @tenant_id AND sensitive) AS hides`

type sensitiveRow struct {
	Type     string
	Revision int64
}

// Sensitive gives a tenant's types of which any kept version has something sensitive, also those that were deleted, each with its
// last revision.
func (t *Types) Sensitive(ctx context.Context, owner tenant.ID) (map[string]int64, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowToStructByName[sensitiveRow], sensitiveSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return nil, fmt.Errorf("jobtypes: sensitive: %w", store.NotApplied(err))
	}
	types := make(map[string]int64, len(found))
	for _, one := range found {
		types[one.Type] = one.Revision
	}
	return types, nil
}

const schemasSQL = `
SELECT payload_schema, result_schema FROM job_types
WHERE tenant_id = @tenant_id AND type = @type
ORDER BY version DESC`

// Schemas are those of a version of a type; nil where it has none.
type Schemas struct{ PayloadSchema, ResultSchema []byte }

// Versions gives the schemas of all kept versions of a type, also of one that was deleted, newest first. db, where not nil, is a
// transaction that reads them.
func (t *Types) Versions(ctx context.Context, db store.Querier, owner tenant.ID, name string) (found []Schemas, err error) {
	args := store.Args{"tenant_id": owner, "type": name}
	if db == nil {
		found, err = store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowToStructByName[Schemas], schemasSQL, args)
		err = store.NotApplied(err)
	} else {
		var rows pgx.Rows
		if rows, err = db.Query(ctx, schemasSQL, args); err == nil {
			found, err = pgx.CollectRows(rows, pgx.RowToStructByName[Schemas])
		}
	}
	if err != nil {
		return nil, fmt.Errorf("jobtypes: schemas: %w", err)
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
