package installation

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// ThisCell says which cell of an installation a database is.
type ThisCell struct {
	Name         string
	Installation uuid.UUID
	// Home: it has the directory.
	Home bool
}

const thisCellSQL = `SELECT name, installation, home FROM this_cell`

// ThisCell gives which cell the database is; nil for the only database of an installation.
func (r *Registry) ThisCell(ctx context.Context) (*ThisCell, error) {
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), r.Store, pgx.RowToStructByName[ThisCell], thisCellSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("installation: this cell: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	return &rows[0], nil
}

// The home cell had tenants before there were others.
const becomeCellSQL = `
INSERT INTO this_cell (name, installation, home)
SELECT @name, @installation, @home
WHERE @home OR NOT EXISTS (SELECT FROM tenants)
ON CONFLICT (one) DO NOTHING`

// BecomeCell makes the database the given cell, and gives which one it is: a repeat, and another
// name, change nothing. A database with tenants becomes no cell but the home: then it gives nil.
func (r *Registry) BecomeCell(ctx context.Context, as ThisCell) (*ThisCell, error) {
	err := r.InTx(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, becomeCellSQL, store.Args{"name": as.Name, "installation": as.Installation, "home": as.Home})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("installation: become cell: %w", err)
	}
	return r.ThisCell(ctx)
}

const tenantsByCellSQL = `
SELECT COALESCE(cell, '') AS cell, count(*) AS tenants FROM tenants WHERE deleted_at IS NULL GROUP BY cell`

// TenantsByCell counts the tenants of each cell, by name; "" is the home cell.
func (r *Registry) TenantsByCell(ctx context.Context) (map[string]int64, error) {
	type counted struct {
		Cell    string
		Tenants int64
	}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), r.Store, pgx.RowToStructByName[counted], tenantsByCellSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("installation: tenants by cell: %w", store.NotApplied(err))
	}
	counts := make(map[string]int64, len(rows))
	for _, row := range rows {
		counts[row.Cell] = row.Tenants
	}
	return counts, nil
}

// CellSize is how full and how busy a cell is.
type CellSize struct {
	// Jobs are those that have not ended; counting stops at MaxCounted.
	Jobs int64
	// Bytes are those of the cell's tables on disk, indexes included.
	Bytes int64
	// Started are the attempts that have begun in the last CountedMinutes.
	Started int64
}

// MaxCounted is where the counting of a cell's jobs stops.
const MaxCounted = 100_000

// CountedMinutes is the time of CellSize.Started.
const CountedMinutes = 10

const (
	startedSQL = `
SELECT COALESCE(sum(started), 0)::bigint FROM job_stats
WHERE queue = '' AND grain IN (0, 1) AND at > statement_timestamp() - @minutes * interval '1 minute'`
	liveJobsSQL = `
SELECT count(*) FROM (SELECT 1 FROM jobs LIMIT @most) AS counted`
	// A database may have several cells, each in a schema.
	tablesSizeSQL = `
SELECT COALESCE(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = ` + store.OwnSchemaSQL + ` AND relkind = 'r'`
	// Where Citus distributes the schema, these tables are empty, and the workers' have the rows.
	shardsSizeSQL = `
SELECT COALESCE(sum(shard_size), 0)::bigint FROM citus_shards
WHERE table_name IN (SELECT oid FROM pg_class WHERE relnamespace = ` + store.OwnSchemaSQL + `)`
)

// CellSize counts the live jobs and the attempts, and asks PostgreSQL for the size of the tables.
func (r *Registry) CellSize(ctx context.Context) (size CellSize, err error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	bytesSQL := tablesSizeSQL
	if r.Distributed() {
		bytesSQL = shardsSizeSQL
	}
	jobs, err := store.Query(ctx, r.Store, pgx.RowTo[int64], liveJobsSQL, store.Args{"most": MaxCounted})
	if err != nil {
		return CellSize{}, fmt.Errorf("installation: cell size: %w", store.NotApplied(err))
	}
	bytes, err := store.Query(ctx, r.Store, pgx.RowTo[int64], bytesSQL, store.Args{})
	if err != nil {
		return CellSize{}, fmt.Errorf("installation: cell size: %w", store.NotApplied(err))
	}
	started, err := store.Query(ctx, r.Store, pgx.RowTo[int64], startedSQL, store.Args{"minutes": CountedMinutes})
	if err != nil {
		return CellSize{}, fmt.Errorf("installation: cell size: %w", store.NotApplied(err))
	}
	return CellSize{jobs[0], bytes[0], started[0]}, nil
}
