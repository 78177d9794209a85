package move_test

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/move"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestMain(m *testing.M) { celltest.Main(m) }

// other is the name of the cell that is not home.
const other = "other"

// fixture is a home cell with a tenant in it, and another cell.
type fixture struct {
	*celltest.Fixture
	// there is the other cell, with the same tenant.
	there *celltest.Fixture
	// log is the movers', nil for none.
	log *slog.Logger
	// late is the last job of submit.
	late submit.NewJob
	// drain is how long a move waits for leases.
	drain time.Duration
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{Fixture: celltest.NewFixture(t)}
	f.there = &celltest.Fixture{T: t, URL: celltest.URL(t), Tenant: f.Tenant}
	f.there.Store, f.there.Direct = celltest.OpenURL(t, f.there.URL), celltest.Connect(t, f.there.URL)
	// ids of lanes differ, as do ids of transactions
	f.there.NewLane(f.there.NewTenant(), "default")
	f.there.Exec(`SELECT setval('lanes_id_seq', 5000000)`)
	return f
}

// cells gives the two ends of a move to a cell.
func (f *fixture) cells(to string) (source, target *celltest.Fixture) {
	if to == "" {
		return f.there, f.Fixture
	}
	return f.Fixture, f.there
}

// mover makes a mover of the fixture's tenant, with sessions of its own.
func (f *fixture) mover(to string, tracer pgx.QueryTracer) (*move.Mover, func()) {
	f.Helper()
	open := func(url, name string) *cell.Cell {
		made, err := cell.Open(f.Context(), cell.Options{Options: store.Options{URL: url, MaxConns: 6, PoolWait: 5 * time.Second, Tracer: tracer, Cell: name}})
		if err != nil {
			f.Fatal(err)
		}
		return made
	}
	home, away := open(f.URL, ""), open(f.there.URL, "")
	options := move.Options{Home: home, Source: home, Target: away, To: other, Tenant: f.Tenant, Log: cmp.Or(f.log, slog.New(slog.DiscardHandler)), Drain: f.drain}
	if to == "" {
		options.Source, options.Target, options.From, options.To = away, home, other, ""
	}
	return move.New(options), func() { home.Close(); away.Close() }
}

func (f *fixture) move(ctx context.Context, to string, tracer pgx.QueryTracer) error {
	f.Helper()
	mover, end := f.mover(to, tracer)
	defer end()
	return mover.Move(ctx)
}

func (f *fixture) mustMove(to string) {
	f.Helper()
	if err := f.move(f.bounded(), to, nil); err != nil {
		f.Fatal(err)
	}
	if in := f.where(); in != to {
		f.Fatalf("the tenant is in %q, want %q", in, to)
	}
}

func (f *fixture) bounded() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), 5*time.Minute)
	f.Cleanup(cancel)
	return ctx
}

// where gives the tenant's cell.
func (f *fixture) where() string {
	f.Helper()
	in, _, err := move.Place(f.Context(), f.Store, f.Tenant)
	if err != nil {
		f.Fatal(err)
	}
	return in
}

// contents are all rows of a tenant as text, sorted, by table; without what differs between cells.
func contents(f *celltest.Fixture, owner tenant.ID) map[string][]string {
	f.Helper()
	found := map[string][]string{}
	for table, which := range map[string]string{
		"workers": "owner = $1", "workflow_jobs": "workflow_id IN (SELECT id FROM workflows WHERE tenant_id = $1)",
		"redrive_samples": "redrive_id IN (SELECT id FROM redrives WHERE tenant_id = $1)",
	} {
		found[table] = rowsOf(f, table, which, owner)
	}
	for _, table := range move.TableNames() {
		if _, done := found[table]; !done && !slices.Contains([]string{"usage_log", "usage_credits"}, table) {
			found[table] = rowsOf(f, table, "tenant_id = $1", owner)
		}
	}
	return found
}

func rowsOf(f *celltest.Fixture, table, which string, owner tenant.ID) []string {
	f.Helper()
	without := `- '{lane_id,event_id}'::text[]`
	switch table {
	case "queues":
		without += ` - 'updated_at'`
	case "follow_ups", "key_checks", "budget_settlements":
		without += ` - 'id'`
	case "lanes":
		without = `- '{id,used_at}'::text[]`
	case "audit_log":
		which += " AND action <> 'tenant.create' AND action <> 'tenant.patch' AND action NOT LIKE 'key.%'"
	}
	rows, err := f.Direct.Query(f.Context(), fmt.Sprintf(`SELECT (to_jsonb(t) %s)::text FROM %s AS t WHERE %s ORDER BY 1`, without, table, which), owner)
	if err != nil {
		f.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		f.Fatal(err)
	}
	return all
}

// giveBack ends the leases of the tenant, as a move does.
func (f *fixture) giveBack() {
	f.Helper()
	rows, err := f.Direct.Query(f.Context(), `SELECT id, epoch, lease_id FROM jobs WHERE tenant_id = $1 AND state = 'running'`, f.Tenant)
	if err != nil {
		f.Fatal(err)
	}
	lease := job.Lease{Tenant: f.Tenant}
	var leases []job.Lease
	if _, err := pgx.ForEachRow(rows, []any{&lease.Job, &lease.Epoch, &lease.ID}, func() error {
		leases = append(leases, lease)
		return nil
	}); err != nil {
		f.Fatal(err)
	}
	for _, ended := range f.Store.Jobs.GiveBack(f.Context(), leases) {
		if ended.Err != nil {
			f.Fatal(ended.Err)
		}
	}
}

// sound fails the test where a cell's counts or edges are wrong.
func sound(f *celltest.Fixture, when string) {
	f.Helper()
	drifts, err := f.Store.Counts.Verify(f.Context())
	if err != nil || len(drifts) > 0 {
		f.Errorf("%s: %v, %v", when, drifts, err)
	}
	waits, err := f.Store.Dependencies.VerifyDependencies(f.Context())
	if err != nil || len(waits) > 0 {
		f.Errorf("%s: %v, %v", when, waits, err)
	}
}

// capped gives the tenant a cap, so that its jobs are counted.
func (f *fixture) capped() {
	f.Helper()
	if _, err := f.Store.Tenants.Patch(f.Context(), f.Tenant, api.TenantPatch{Overrides: &api.Overrides{Limits: api.Limits{MaxActive: new(int64(1_000_000))}}}); err != nil {
		f.Fatal(err)
	}
}
