// Package installation has what an installation consists of, for the operator: its cores and gateways, and when
// `core verify` last ran. Each process reports itself every 20 s to the home cell, and takes its report back when it is
// stopped. Nothing else depends on it.
package installation

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Registry has the statements.
type Registry struct{ *store.Store }

const (
	verifiedSQL = `
INSERT INTO verification (verified_at, violations) VALUES (statement_timestamp(), @found)
ON CONFLICT (one) DO UPDATE SET verified_at = excluded.verified_at, violations = excluded.violations`
	countedSQL = `
INSERT INTO verification (counted_at, drift) VALUES (statement_timestamp(), @found)
ON CONFLICT (one) DO UPDATE SET counted_at = excluded.counted_at, drift = excluded.drift`
)

// NoteVerified notes how many violations `core verify` has found.
func (r *Registry) NoteVerified(ctx context.Context, violations int) error {
	return r.note(ctx, verifiedSQL, violations)
}

// NoteCounted notes how many wrong counts of caps a core's round through all of them has found.
func (r *Registry) NoteCounted(ctx context.Context, drift int) error {
	return r.note(ctx, countedSQL, drift)
}

func (r *Registry) note(ctx context.Context, sql string, found int) error {
	if err := r.run(ctx, sql, store.Args{"found": found}); err != nil {
		return fmt.Errorf("installation: note a verification: %w", err)
	}
	return nil
}

func (r *Registry) run(ctx context.Context, sql string, args store.Args) error {
	return store.Exec(store.WithClass(ctx, store.ClassLists), r.Store, sql, args)
}

// readSQL is one statement, since a page of the console may need few.
const readSQL = `
SELECT (SELECT verified_at FROM verification) AS verified_at,
       (SELECT violations FROM verification)  AS violations,
       (SELECT counted_at FROM verification)  AS counted_at,
       (SELECT drift FROM verification)       AS drift,
       (SELECT coalesce(json_agg(json_build_object(
          'id', id, 'kind', kind, 'address', address, 'version', version, 'started_at', started_at, 'seen_at', seen_at,
          'state', CASE WHEN seen_at < statement_timestamp() - @lost::interval THEN 'lost' ELSE 'running' END)
          ORDER BY kind, address, started_at), '[]')
        FROM (SELECT * FROM processes WHERE seen_at >= statement_timestamp() - @kept::interval
              ORDER BY seen_at DESC LIMIT @most) AS recent) AS processes`

type registryRow struct {
	VerifiedAt, CountedAt *time.Time
	Violations, Drift     *int64
	Processes             []api.Process
}

func verification(at *time.Time, found *int64) *api.Verification {
	if at == nil {
		return nil
	}
	return &api.Verification{At: api.At(*at), Violations: *found}
}

// Checked is when it was last found whether counts have drifted; nil where it was not yet.
type Checked struct {
	// Verified is by core verify, Counted by a core's own round through the counts of caps.
	Verified, Counted *api.Verification
}

// ReadRegistry gives the processes that have reported within the last hour and were not stopped, and the last
// verifications.
func (r *Registry) ReadRegistry(ctx context.Context) ([]api.Process, Checked, error) {
	args := store.Args{"lost": lostAfter, "kept": keptFor, "most": maxListed}
	rows, err := store.Query(store.WithClass(ctx, store.ClassLists), r.Store, pgx.RowToStructByName[registryRow], readSQL, args)
	if err != nil {
		return nil, Checked{}, fmt.Errorf("installation: %w", store.NotApplied(err))
	}
	row := &rows[0]
	return row.Processes, Checked{verification(row.VerifiedAt, row.Violations), verification(row.CountedAt, row.Drift)}, nil
}
