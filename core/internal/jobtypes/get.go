package jobtypes

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const getSQL = `
SELECT ` + columns + ` FROM job_types
WHERE tenant_id = @tenant_id AND type = @type AND (version = @version AND EXISTS (` + newestSQL + `) OR @version = 0 AND newest)`

// newestSQL finds the newest version: there is none of a type that was deleted.
const newestSQL = `SELECT FROM job_types AS n WHERE n.tenant_id = @tenant_id AND n.type = @type AND n.newest`

// Type gives a version of a tenant's type, 0 for the newest, and its revision. ErrNotFound where it is not kept.
func (t *Types) Type(ctx context.Context, owner tenant.ID, name string, version int) (api.JobType, int64, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, pgx.RowToAddrOfStructByName[row], getSQL,
		store.Args{"tenant_id": owner, "type": name, "version": version})
	if err != nil {
		return api.JobType{}, 0, fmt.Errorf("jobtypes: get: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return api.JobType{}, 0, store.ErrNotFound
	}
	return rows[0].wire(), rows[0].Revision, nil
}

// summaryColumns leave schemas and examples where they are.
const summaryColumns = `type, version, description, payload_schema IS NOT NULL, check_results, defaults, label, created_at`

func scanSummary(scanned pgx.CollectableRow) (shown api.JobTypeSummary, err error) {
	var r row
	err = scanned.Scan(&shown.Type, &shown.Version, &shown.Description, &shown.ChecksPayload, &shown.ChecksResults, &r.Defaults, &shown.Label, &r.CreatedAt)
	shown.Defaults, shown.CreatedAt = r.defaults(), api.At(r.CreatedAt)
	return shown, err
}

const listSQL = `
SELECT ` + summaryColumns + ` FROM job_types
WHERE tenant_id = @tenant_id AND newest AND type > @after
ORDER BY type
LIMIT @size`

// ListTypes gives a tenant's types by name, after one of them.
func (t *Types) ListTypes(ctx context.Context, owner tenant.ID, after string, size int) ([]api.JobTypeSummary, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), t.Store, scanSummary, listSQL,
		store.Args{"tenant_id": owner, "after": after, "size": size})
	if err != nil {
		return nil, fmt.Errorf("jobtypes: list: %w", store.NotApplied(err))
	}
	return found, nil
}

const versionsSQL = `
SELECT ` + summaryColumns + ` FROM job_types
WHERE tenant_id = @tenant_id AND type = @type AND version < @before AND EXISTS (` + newestSQL + `)
ORDER BY version DESC
LIMIT @size`

// TypeVersions gives the versions that are kept of a type, newest first, before one of them. ErrNotFound where there
// is no such type.
func (t *Types) TypeVersions(ctx context.Context, owner tenant.ID, name string, before, size int) ([]api.JobTypeSummary, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), t.Store, scanSummary, versionsSQL,
		store.Args{"tenant_id": owner, "type": name, "before": before, "size": size})
	switch {
	case err != nil:
		return nil, fmt.Errorf("jobtypes: versions: %w", store.NotApplied(err))
	case len(found) == 0:
		return nil, store.ErrNotFound
	}
	return found, nil
}

// One statement, so that the version is that of the types.
const setSQL = `
SELECT t.types_version, j.type, j.version, j.revision, j.payload_schema IS NOT NULL, j.check_results, j.defaults, j.created_at
FROM tenants AS t
LEFT JOIN job_types AS j ON j.tenant_id = t.id AND j.newest
WHERE t.id = @tenant_id`

// TypeSet gives all types of a tenant, without their schemas.
func (t *Types) TypeSet(ctx context.Context, owner tenant.ID) (set hop.TypeSet, err error) {
	set.Types = []hop.CheckedType{}
	scan := func(scanned pgx.CollectableRow) (struct{}, error) {
		var name *string
		var version *int
		var revision *int64
		var payload bool
		var results *bool
		var created *time.Time
		var r row
		if err := scanned.Scan(&set.Version, &name, &version, &revision, &payload, &results, &r.Defaults, &created); err != nil || name == nil {
			return struct{}{}, err
		}
		set.Types = append(set.Types, hop.CheckedType{
			Type: *name, Version: *version, Revision: *revision, ChecksPayload: payload, ChecksResults: *results, Defaults: r.defaults(), CreatedAt: api.At(*created),
		})
		return struct{}{}, nil
	}
	if _, err = store.Query(store.WithClass(ctx, store.ClassSubmits), t.Store, scan, setSQL, store.Args{"tenant_id": owner}); err != nil {
		return hop.TypeSet{}, fmt.Errorf("jobtypes: set: %w", store.NotApplied(err))
	}
	return set, nil
}

const runningSQL = `
SELECT id, tenant_id, type FROM jobs
WHERE id = ANY(@ids::uuid[]) AND state = 'running' AND (tenant_id = @owner OR @any)`

// Running is a running job.
type Running struct {
	ID       uuid.UUID
	TenantID tenant.ID
	Type     string
}

// RunningJobs gives those of the jobs that run and are owner's; of any tenant where owner is tenant.Platform.
func (t *Types) RunningJobs(ctx context.Context, owner tenant.ID, ids []uuid.UUID) ([]Running, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassOutcomes), t.Store, pgx.RowToStructByName[Running], runningSQL,
		store.Args{"ids": ids, "owner": owner, "any": owner == tenant.Platform})
	if err != nil {
		return nil, fmt.Errorf("jobtypes: running jobs: %w", store.NotApplied(err))
	}
	return found, nil
}

// liveSQL reads some of each state, in the lanes of the type.
const liveSQL = `
WITH l AS (
  SELECT ARRAY(SELECT id FROM lanes WHERE tenant_id = @tenant_id AND type = @type) AS lanes
), sampled AS MATERIALIZED (
  SELECT id, size FROM (
    (SELECT j.id, j.size FROM l CROSS JOIN unnest(l.lanes) AS lane(id) CROSS JOIN LATERAL
      (SELECT jobs.id, jobs.size FROM jobs WHERE state = 'queued' AND lane_id = lane.id AND jobs.type = @type LIMIT @most) AS j LIMIT @most)
    UNION ALL
    (SELECT j.id, j.size FROM l CROSS JOIN unnest(l.lanes) AS lane(id) CROSS JOIN LATERAL
      (SELECT jobs.id, jobs.size FROM jobs WHERE state IN ('blocked', 'scheduled', 'waiting') AND lane_id = lane.id AND jobs.type = @type LIMIT @most) AS j LIMIT @most)
    UNION ALL
    (SELECT jobs.id, jobs.size FROM l JOIN jobs ON state = 'running' AND lane_id = ANY(l.lanes) AND jobs.type = @type LIMIT @most)
  ) AS live LIMIT @most
), bounded AS (
  SELECT id, sum(size::bigint) OVER (ORDER BY id) - size AS before FROM sampled
)
SELECT jobs.id, jobs.payload FROM bounded JOIN jobs ON jobs.id = bounded.id AND bounded.before <= @bytes ORDER BY jobs.id`

// Live is a job that has not ended, with its payload; nil is null.
type Live struct {
	ID      uuid.UUID
	Payload []byte
}

// LiveJobs gives some jobs of a type that have not ended: at most most, whose payloads have about so many bytes.
func (t *Types) LiveJobs(ctx context.Context, owner tenant.ID, name string, most, bytes int) ([]Live, error) {
	found, err := store.Query(store.WithClass(ctx, store.ClassLists), t.Store, pgx.RowToStructByName[Live], liveSQL,
		store.Args{"tenant_id": owner, "type": name, "most": most, "bytes": bytes})
	if err != nil {
		return nil, fmt.Errorf("jobtypes: live jobs: %w", store.NotApplied(err))
	}
	return found, nil
}

// documentBytes bounds TypeDocuments.
const documentBytes = 4 << 20

const documentsSQL = `
WITH sized AS (
  SELECT type, version, sum(size::bigint) OVER (ORDER BY type) AS total FROM job_types WHERE tenant_id = @tenant_id AND newest
)
SELECT count(*) FILTER (WHERE total > @bytes) AS left_out,
       array_agg(type ORDER BY type) FILTER (WHERE total <= @bytes) AS types
FROM sized`

const someSQL = `
SELECT ` + columns + ` FROM job_types
WHERE tenant_id = @tenant_id AND newest AND type = ANY(@types::text[])
ORDER BY type`

// TypeDocuments gives a tenant's types with their schemas, by name, as far as they have documentBytes.
func (t *Types) TypeDocuments(ctx context.Context, owner tenant.ID) (hop.TypeDocuments, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	made := hop.TypeDocuments{Types: []api.JobType{}}
	var names []string
	scan := func(scanned pgx.CollectableRow) (struct{}, error) {
		return struct{}{}, scanned.Scan(&made.LeftOut, &names)
	}
	if _, err := store.Query(ctx, t.Store, scan, documentsSQL, store.Args{"tenant_id": owner, "bytes": documentBytes}); err != nil {
		return hop.TypeDocuments{}, fmt.Errorf("jobtypes: documents: %w", store.NotApplied(err))
	}
	// A type that has grown meanwhile is larger by at most its bounds.
	found, err := store.Query(ctx, t.Store, pgx.RowToAddrOfStructByName[row], someSQL, store.Args{"tenant_id": owner, "types": names})
	if err != nil {
		return hop.TypeDocuments{}, fmt.Errorf("jobtypes: documents: %w", store.NotApplied(err))
	}
	for _, one := range found {
		made.Types = append(made.Types, one.wire())
	}
	return made, nil
}
