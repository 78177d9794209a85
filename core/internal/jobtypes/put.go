package jobtypes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// One change of a tenant's types at a time.
	lockTenantSQL = `
SELECT types_version FROM tenants WHERE id = @tenant_id AND deleting_at IS NULL FOR NO KEY UPDATE`

	// What is kept without the type, and how much the versions of it take that stay.
	boundsSQL = `
SELECT count(DISTINCT type) FILTER (WHERE type <> @type), COALESCE(sum(size::bigint), 0)
FROM job_types WHERE tenant_id = @tenant_id AND (type <> @type OR version > @gone)`

	insertSQL = `
INSERT INTO job_types (tenant_id, type, version, revision, newest, description, payload_schema, result_schema, check_results, sensitive, examples, defaults, label, size, created_at)
VALUES (@tenant_id, @type, @version, @revision, true, @description, @payload_schema, @result_schema, @check_results, @sensitive, @examples, @defaults, @label, @size, statement_timestamp())
RETURNING created_at`

	supersedeSQL = `
UPDATE job_types SET newest = false WHERE tenant_id = @tenant_id AND type = @type AND newest`

	dropVersionsSQL = `
DELETE FROM job_types WHERE tenant_id = @tenant_id AND type = @type AND version <= @gone`

	changedSQL = `
UPDATE tenants
SET types_version = @version, updated_at = statement_timestamp(),
    checks_results = EXISTS (SELECT FROM job_types WHERE tenant_id = @tenant_id AND newest AND check_results)
WHERE id = @tenant_id`
)

// Definition is a type that is put: its schemas have been compiled.
type Definition struct {
	api.JobTypeRequest

	// Sensitive says that x-sensitive marks a part of a schema.
	Sensitive bool
	// Reveals says that its caller sees sensitive values.
	Reveals bool
}

// PutType stores a new version of a tenant's type, as long as it differs from the newest one, and drops the oldest
// above api.MaxTypeVersions. changed is the version of the tenant's types, 0 where nothing has changed.
// ErrTooManyTypes, ErrTooLarge, ErrSensitive, and ErrNotFound where the tenant is gone.
func (t *Types) PutType(ctx context.Context, owner tenant.ID, name string, given Definition) (stored api.JobType, changed int64, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	made := newRow(name, given)
	err = t.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		version, err := lockTenant(ctx, tx, owner)
		if err != nil {
			return err
		}
		before, err := newest(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if before != nil && before.equals(made) {
			stored = before.wire()
			return nil
		}
		kept, err := versionsOf(ctx, tx, owner, name)
		if err != nil {
			return err
		}
		if kept.Sensitive && !given.Reveals {
			return ErrSensitive
		}
		made.Version, made.Revision, changed = kept.Last+1, version+1, version+1
		if err := made.insert(ctx, tx, owner); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, changedSQL, store.Args{"tenant_id": owner, "version": changed}); err != nil {
			return err
		}
		stored = made.wire()
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditTypePut, Object: name, Detail: map[string]any{
			"version": made.Version, "label": made.Label, "checks_payload": made.PayloadSchema != nil, "checks_results": made.CheckResults,
		}})
	})
	if err != nil {
		return api.JobType{}, 0, fmt.Errorf("jobtypes: put: %w", err)
	}
	return stored, changed, nil
}

func newRow(name string, request Definition) *row {
	made := &row{
		Type: name, Description: request.Description, Label: request.Label, CheckResults: request.CheckResults, Sensitive: request.Sensitive, Examples: []byte("[]"),
		Defaults: store.JSON(store.OrElse(request.Defaults, api.JobTypeDefaults{})),
	}
	if api.HasSchema(request.PayloadSchema) {
		made.PayloadSchema = compact(request.PayloadSchema)
	}
	if api.HasSchema(request.ResultSchema) {
		made.ResultSchema = compact(request.ResultSchema)
	}
	if len(request.Examples) > 0 {
		made.Examples = compact(store.JSON(request.Examples))
	}
	return made
}

// compact drops white space.
func compact(text json.RawMessage) []byte {
	var made bytes.Buffer
	if json.Compact(&made, text) != nil {
		return text // it was decoded before
	}
	return made.Bytes()
}

func (r *row) equals(other *row) bool {
	return r.Description == other.Description && r.CheckResults == other.CheckResults && bytes.Equal(r.PayloadSchema, other.PayloadSchema) &&
		bytes.Equal(r.ResultSchema, other.ResultSchema) && bytes.Equal(r.Examples, other.Examples) && bytes.Equal(r.Defaults, other.Defaults) &&
		store.OrElse(r.Label, "") == store.OrElse(other.Label, "")
}

func (r *row) insert(ctx context.Context, tx pgx.Tx, owner tenant.ID) error {
	size := len(r.Description) + len(r.PayloadSchema) + len(r.ResultSchema) + len(r.Examples) + len(r.Defaults)
	gone := r.Version - api.MaxTypeVersions
	of := store.Args{"tenant_id": owner, "type": r.Type, "gone": gone}
	var others int
	var bytesKept int64
	if err := tx.QueryRow(ctx, boundsSQL, of).Scan(&others, &bytesKept); err != nil {
		return err
	}
	if others >= api.MaxTypes {
		return ErrTooManyTypes
	}
	if bytesKept+int64(size) > api.MaxTypeBytes {
		return ErrTooLarge
	}
	if _, err := tx.Exec(ctx, supersedeSQL, store.Args{"tenant_id": owner, "type": r.Type}); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, dropVersionsSQL, of); err != nil {
		return err
	}
	return tx.QueryRow(ctx, insertSQL, store.Args{
		"tenant_id": owner, "type": r.Type, "version": r.Version, "revision": r.Revision, "description": r.Description,
		"payload_schema": textOrNil(r.PayloadSchema), "result_schema": textOrNil(r.ResultSchema), "check_results": r.CheckResults, "sensitive": r.Sensitive,
		"examples": string(r.Examples), "defaults": string(r.Defaults), "label": r.Label, "size": size,
	}).Scan(&r.CreatedAt)
}

func textOrNil(text []byte) *string {
	if text == nil {
		return nil
	}
	return new(string(text))
}

// lockTenant gives the version of its types; ErrNotFound for a tenant that is gone.
func lockTenant(ctx context.Context, tx pgx.Tx, owner tenant.ID) (int64, error) {
	rows, err := tx.Query(ctx, lockTenantSQL, store.Args{"tenant_id": owner})
	if err != nil {
		return 0, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return 0, err
	}
	return found[0], nil
}

// newest gives nil where there is no such type.
func newest(ctx context.Context, tx pgx.Tx, owner tenant.ID, name string) (*row, error) {
	rows, err := tx.Query(ctx, getSQL, store.Args{"tenant_id": owner, "type": name, "version": 0})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[row])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

const (
	keptSQL = `
SELECT COALESCE(max(version), 0) AS last, COALESCE(bool_or(sensitive), false) AS sensitive
FROM job_types WHERE tenant_id = @tenant_id AND type = @type`

	deleteSQL = `
DELETE FROM job_types WHERE tenant_id = @tenant_id AND type = @type AND NOT sensitive`

	// What hides values stays.
	retireSQL = `
UPDATE job_types
SET newest = false, description = '', examples = '[]', defaults = '{}', label = NULL,
    size = COALESCE(octet_length(payload_schema::text), 0) + COALESCE(octet_length(result_schema::text), 0)
WHERE tenant_id = @tenant_id AND type = @type AND sensitive`
)

// kept is what is kept of a type: the last version, and whether any has something sensitive.
type kept struct {
	Last      int
	Sensitive bool
}

func versionsOf(ctx context.Context, tx pgx.Tx, owner tenant.ID, name string) (kept, error) {
	rows, err := tx.Query(ctx, keptSQL, store.Args{"tenant_id": owner, "type": name})
	if err != nil {
		return kept{}, err
	}
	return pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[kept])
}

// DeleteType deletes a tenant's type with all of its versions: jobs of it are no longer checked. Those that have anything
// sensitive go on hiding it. It gives the version of the tenant's types. ErrNotFound where there is none; ErrSensitive where it
// has something sensitive, which the caller does not see.
func (t *Types) DeleteType(ctx context.Context, owner tenant.ID, name string, reveals bool) (changed int64, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err = t.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		version, err := lockTenant(ctx, tx, owner)
		if err != nil {
			return err
		}
		of := store.Args{"tenant_id": owner, "type": name}
		before, err := newest(ctx, tx, owner, name)
		if err == nil && before == nil {
			err = store.ErrNotFound
		}
		if err != nil {
			return err
		}
		kept, err := versionsOf(ctx, tx, owner, name)
		if err == nil && kept.Sensitive && !reveals {
			err = ErrSensitive
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, deleteSQL, of); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, retireSQL, of); err != nil {
			return err
		}
		changed = version + 1
		if _, err := tx.Exec(ctx, changedSQL, store.Args{"tenant_id": owner, "version": changed}); err != nil {
			return err
		}
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditTypeDelete, Object: name})
	})
	if err != nil {
		return 0, fmt.Errorf("jobtypes: delete: %w", err)
	}
	return changed, nil
}
