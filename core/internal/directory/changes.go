package directory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// ErrOtherInstallation says that a cell of another installation asks.
var ErrOtherInstallation = errors.New("directory: the cell is of another installation")

// Directory reads the directory in the home cell.
type Directory struct {
	*store.Store
	// Draining says that the process is about to stop: nobody waits for a change any more. Nil says no.
	Draining func() bool
}

const (
	// MaxWait bounds how long an answer waits for a change.
	MaxWait = 25 * time.Second
	// lookEvery is the pause between two looks at the version while a cell waits.
	lookEvery = 250 * time.Millisecond
	// tenantPage and keyPage bound an answer. A tenant's keys come together: keyPage is more than those of one.
	tenantPage = 1000
	keyPage    = 12_000
)

const (
	versionSQL = `SELECT version FROM directory`
	// A reader is noted where its version has changed, and every 5 s.
	noteReaderSQL = `
INSERT INTO directory_readers (cell, version, seen_at) VALUES (@cell, @version, statement_timestamp())
ON CONFLICT (cell) DO UPDATE SET version = EXCLUDED.version, seen_at = EXCLUDED.seen_at
WHERE directory_readers.version <> EXCLUDED.version OR directory_readers.seen_at < statement_timestamp() - interval '5 seconds'`
	installationSQL = `SELECT COALESCE((SELECT installation::text FROM this_cell WHERE home), '')`

	changedPlansSQL = `
SELECT name, limits, visibility_timeout_ms_max FROM plans WHERE version > @since AND version <= @until`
	changedTenantsSQL = `
SELECT id, name, plan, weight, overrides, created_at, deleting_at IS NOT NULL AS deleting, version
FROM tenants WHERE cell = @cell AND version > @since AND version <= @until ORDER BY version LIMIT @page`
	// A tenant that has come to the cell brings all of its keys: a key counts as changed with its tenant.
	changedKeysSQL = `
SELECT to_jsonb(k) - 'version' AS row, GREATEST(k.version, COALESCE(t.version, 0)) AS version
FROM (
  SELECT key_id FROM api_keys WHERE version > @since AND version <= @until
  UNION
  SELECT key_id FROM api_keys WHERE tenant_id IN (SELECT id FROM tenants WHERE cell = @cell AND version > @since AND version <= @until)
) AS changed
JOIN api_keys AS k USING (key_id) LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE (k.tenant_id IS NULL OR t.cell = @cell) AND GREATEST(k.version, COALESCE(t.version, 0)) <= @until
ORDER BY 2 LIMIT @page`
)

// Changes gives what has changed for a cell since a version, after it has waited for a change for as long as the request says.
// ErrOtherInstallation where the cell's database is not one of this installation.
func (d Directory) Changes(ctx context.Context, asked hop.DirectoryRequest) (hop.DirectoryChanges, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	installation, err := one[string](ctx, d.Store, installationSQL)
	if err != nil {
		return hop.DirectoryChanges{}, err
	}
	if installation == "" || installation != asked.Installation {
		return hop.DirectoryChanges{}, ErrOtherInstallation
	}
	if err := d.noteReader(ctx, asked); err != nil {
		return hop.DirectoryChanges{}, err
	}
	until := time.Now().Add(min(time.Duration(asked.WaitMS)*time.Millisecond, MaxWait))
	for {
		version, err := one[int64](ctx, d.Store, versionSQL)
		if err != nil {
			return hop.DirectoryChanges{}, err
		}
		switch {
		case version < asked.Since:
			asked.Since = 0
			changes, err := d.read(ctx, asked, version)
			changes.Reset = true
			return changes, err
		case version > asked.Since:
			return d.read(ctx, asked, version)
		case time.Now().After(until), d.Draining != nil && d.Draining():
			return hop.DirectoryChanges{Version: version}, nil
		}
		if err := wait.For(ctx, lookEvery); err != nil {
			return hop.DirectoryChanges{}, err
		}
	}
}

func (d Directory) noteReader(ctx context.Context, asked hop.DirectoryRequest) error {
	return store.Exec(ctx, d.Store, noteReaderSQL, store.Args{"cell": asked.Cell, "version": asked.Since})
}

const tenantSQL = `
SELECT id, name, plan, weight, overrides, created_at, deleting_at IS NOT NULL AS deleting, version FROM tenants WHERE id = @id`

// Bring copies a tenant with its plan to a cell that it is moved to. Its keys follow once the directory says that it is there.
func Bring(ctx context.Context, home, to *store.Store, owner tenant.ID) error {
	ctx = store.WithClass(ctx, store.ClassLists)
	found, err := store.Query(ctx, home, pgx.RowToStructByName[tenantRow], tenantSQL, store.Args{"id": owner})
	if err != nil || len(found) == 0 {
		return fmt.Errorf("directory: tenant %s: %w", owner, cmp.Or(store.NotApplied(err), store.ErrNotFound))
	}
	plan, err := (&tenants.Tenants{Store: home}).GetPlan(ctx, found[0].Plan)
	if err != nil {
		return err
	}
	return to.InTx(audit.WithoutActor(ctx), func(tx pgx.Tx) error {
		if err := tenants.CopyPlan(ctx, tx, plan); err != nil {
			return err
		}
		return tenants.Copy(ctx, tx, found[0].wire())
	})
}

const seenSQL = `SELECT cell FROM directory_readers WHERE seen_at > statement_timestamp() - @within::interval`

// SeenWithin gives the cells whose cores have asked for changes within a time, as an interval of PostgreSQL.
func (d Directory) SeenWithin(ctx context.Context, within string) (map[string]bool, error) {
	names, err := store.Query(store.WithClass(ctx, store.ClassLists), d.Store, pgx.RowTo[string], seenSQL, store.Args{"within": within})
	if err != nil {
		return nil, fmt.Errorf("directory: cells seen: %w", store.NotApplied(err))
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		seen[name] = true
	}
	return seen, nil
}

func one[T any](ctx context.Context, s *store.Store, sql string) (value T, err error) {
	rows, err := store.Query(ctx, s, pgx.RowTo[T], sql, store.Args{})
	if err == nil && len(rows) == 1 {
		return rows[0], nil
	}
	return value, fmt.Errorf("directory: %w", store.NotApplied(err))
}

type planRow struct {
	Name                   string
	Limits                 []byte
	VisibilityTimeoutMsMax *int64
}

type tenantRow struct {
	ID        tenant.ID
	Name      string
	Plan      string
	Weight    int
	Overrides json.RawMessage
	CreatedAt time.Time
	Deleting  bool
	Version   int64
}

func (r *tenantRow) wire() *hop.DirectoryTenant {
	return &hop.DirectoryTenant{
		ID: r.ID.String(), Name: r.Name, Plan: r.Plan, Weight: r.Weight, Overrides: r.Overrides, CreatedAt: api.At(r.CreatedAt), Deleting: r.Deleting,
	}
}

type keyRow struct {
	Row     json.RawMessage
	Version int64
}

// read gives the changes up to a version, or up to an earlier one where they are too many for an answer.
func (d Directory) read(ctx context.Context, asked hop.DirectoryRequest, until int64) (hop.DirectoryChanges, error) {
	args := func(page int) store.Args {
		return store.Args{"cell": asked.Cell, "since": asked.Since, "until": until, "page": page}
	}
	found, err := store.Query(ctx, d.Store, pgx.RowToStructByName[tenantRow], changedTenantsSQL, args(tenantPage))
	if err != nil {
		return hop.DirectoryChanges{}, fmt.Errorf("directory: tenants: %w", store.NotApplied(err))
	}
	if len(found) == tenantPage {
		until = found[len(found)-1].Version
	}
	keys, err := store.Query(ctx, d.Store, pgx.RowToStructByName[keyRow], changedKeysSQL, args(keyPage))
	if err != nil {
		return hop.DirectoryChanges{}, fmt.Errorf("directory: keys: %w", store.NotApplied(err))
	}
	if len(keys) == keyPage { // the last version may be cut
		until = keys[len(keys)-1].Version - 1
	}
	changes := hop.DirectoryChanges{Version: until}
	for i := range found {
		if of := &found[i]; of.Version <= until {
			changes.Tenants = append(changes.Tenants, *of.wire())
		}
	}
	for i := range keys {
		if keys[i].Version <= until {
			changes.Keys = append(changes.Keys, keys[i].Row)
		}
	}
	plans, err := store.Query(ctx, d.Store, pgx.RowToStructByName[planRow], changedPlansSQL, store.Args{"since": asked.Since, "until": until})
	if err != nil {
		return hop.DirectoryChanges{}, fmt.Errorf("directory: plans: %w", store.NotApplied(err))
	}
	for _, of := range plans {
		changes.Plans = append(changes.Plans, tenants.PlanFrom(of.Name, of.Limits, of.VisibilityTimeoutMsMax))
	}
	return changes, nil
}
