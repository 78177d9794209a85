package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/keys"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenants"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMigrateTwiceAndAtOnce(t *testing.T) {
	t.Parallel()
	url := celltest.EmptyURL(t)
	store := celltest.OpenURL(t, url)
	if pending, err := store.SchemaPending(t.Context()); err != nil || pending == 0 {
		t.Fatalf("an empty database lacks %d migrations (%v)", pending, err)
	}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := celltest.OpenURL(t, url).Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if applied, err := store.Migrate(t.Context()); err != nil || len(applied) != 0 {
		t.Fatalf("a repeat applied %v (%v)", applied, err)
	}
	if pending, err := store.SchemaPending(t.Context()); err != nil || pending != 0 {
		t.Fatalf("%d migrations are still to come (%v)", pending, err)
	}
}

// A database whose tables another build of core created, with migrations of the same numbers, is refused by words.
func TestASchemaOfAnotherBuildIsRefused(t *testing.T) {
	t.Parallel()
	url := celltest.EmptyURL(t)
	db := celltest.OpenURL(t, url)
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, comment := range []string{`'sha256:00'`, `NULL`} {
		if _, err := celltest.Connect(t, url).Exec(t.Context(), `COMMENT ON TABLE goose_db_version IS `+comment); err != nil {
			t.Fatal(err)
		}
		if _, err := db.Migrate(t.Context()); !store.IsOtherSchema(err) {
			t.Errorf("migrate with the comment %s: %v", comment, err)
		}
		if _, err := db.SchemaPending(t.Context()); !store.IsOtherSchema(err) {
			t.Errorf("open with the comment %s: %v", comment, err)
		}
	}
}

func TestPartitionsLieAhead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const partitions = `pg_inherits i JOIN pg_class c ON c.oid = i.inhparent WHERE c.relname IN ('finished_jobs', 'attempts')`
	before := f.Count(partitions)
	if before != 18 { // yesterday, today and seven days, for two tables
		t.Fatalf("%d partitions, want 18", before)
	}
	f.Exec(`ALTER TABLE finished_jobs DETACH PARTITION finished_jobs_` + time.Now().UTC().AddDate(0, 0, 7).Format("20060102"))
	f.Exec(`DROP TABLE finished_jobs_` + time.Now().UTC().AddDate(0, 0, 7).Format("20060102"))
	for range 2 {
		if err := f.Store.Retention.MakePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if after := f.Count(partitions); after != before {
		t.Fatalf("%d partitions, want %d again", after, before)
	}
}

// A row that the constraints forbid cannot be written, by any statement.
func TestTheSchemaRefusesImpossibleRows(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	for _, change := range []string{
		`state = 'running'`, `state = 'completed'`, `state = 'queued', ready_at = NULL`, `lease_id = gen_random_uuid()`,
		`attempt = max_attempts + 1`, `priority = 10`, `lease_expires_at = now()`,
	} {
		if _, err := f.Direct.Exec(t.Context(), `UPDATE jobs SET `+change); err == nil {
			t.Errorf("%s was accepted", change)
		}
	}
}

func TestTenantsKeysPlans(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	plan, weight, burst := "free", 7, int64(3)
	name := "renamed"
	patched, err := f.Store.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{
		Name: &name, Plan: &plan, Weight: &weight, Overrides: &api.Overrides{Limits: api.Limits{JobBurst: &burst}},
	})
	if err != nil || patched.Plan != plan || patched.Weight != weight || *patched.Overrides.JobBurst != burst || patched.Name != name {
		t.Fatalf("%+v %v", patched, err)
	}
	nowhere := "nowhere"
	if _, err := f.Store.Tenants.Patch(t.Context(), f.Tenant, api.TenantPatch{Plan: &nowhere}); !errors.Is(err, tenants.ErrUnknownPlan) {
		t.Errorf("an unknown plan: %v", err)
	}
	key := hop.CreateKeyRequest{KeyID: "k1", Kind: "tenant", Tenant: f.Tenant.String(), Scopes: []string{"read"}, SecretHMAC: make([]byte, 32)}
	for range 2 {
		if _, err := f.Store.Keys.Create(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	found, err := f.Store.Keys.Lookup(t.Context(), "k1")
	if err != nil || found.Tenant != f.Tenant.String() || found.Plan.Name != plan || *found.Overrides.JobBurst != burst || *found.Plan.Limits.UserJobBurst != 10 {
		t.Fatalf("%+v %v", found, err)
	}
	stranger := key
	stranger.KeyID, stranger.Tenant = "k2", "00000000-0000-7000-8000-000000000000"
	if _, err := f.Store.Keys.Create(t.Context(), stranger); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a key for no tenant: %v", err)
	}
	for range 2 {
		if err := f.Store.Keys.Revoke(t.Context(), "k1"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Store.Keys.Lookup(t.Context(), "k1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a revoked key: %v", err)
	}
	expired := key
	soon := api.At(time.Now().Add(-time.Second))
	expired.KeyID, expired.ExpiresAt = "k3", &soon
	if _, err := f.Store.Keys.Create(t.Context(), expired); !errors.Is(err, keys.ErrExpiryPast) {
		t.Errorf("a key that has expired already: %v", err)
	}
	soon = api.At(time.Now().Add(time.Hour))
	if _, err := f.Store.Keys.Create(t.Context(), expired); err != nil {
		t.Fatal(err)
	}
	if found, err := f.Store.Keys.Lookup(t.Context(), "k3"); err != nil || *found.ExpiresInMS < 3_590_000 || *found.ExpiresInMS > 3_600_000 {
		t.Errorf("an hour is left to it: %+v, %v", found.ExpiresInMS, err)
	}
	f.Exec(`UPDATE api_keys SET expires_at = statement_timestamp() WHERE key_id = 'k3'`)
	if _, err := f.Store.Keys.Lookup(t.Context(), "k3"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an expired key: %v", err)
	}
	if keys, err := f.Store.Keys.List(t.Context(), f.Tenant, "", 10); err != nil || len(keys) != 1 || keys[0].KeyID != "k3" {
		t.Errorf("%+v %v", keys, err)
	}
	if tenants, err := f.Store.Tenants.List(t.Context(), uuid.Max, 10); err != nil || len(tenants) != 1 {
		t.Errorf("%+v %v", tenants, err)
	}
}

func TestWorkers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := f.Store.Workers.Beat(t.Context(), f.Tenant, "w1"); !errors.Is(err, workers.ErrUnknown) {
		t.Fatalf("an unknown worker: %v", err)
	}
	concurrency := 4
	for _, unknown := range []bool{true, false} {
		_, joined, err := f.Store.Workers.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w1", Tags: []string{"gpu"}, Concurrency: &concurrency})
		if err != nil || joined != unknown {
			t.Fatalf("joined: %v, %v", joined, err)
		}
	}
	seen, joined, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w1", workers.Claiming{Queues: []string{"q"}})
	if err != nil || joined || seen.Concurrency != 4 || len(seen.Tags) != 1 {
		t.Fatalf("a claim changed what was registered: %+v %v", seen, err)
	}
	if _, err := f.Store.Workers.Beat(t.Context(), f.NewTenant(), "w1"); !errors.Is(err, workers.ErrUnknown) {
		t.Errorf("another tenant's worker: %v", err)
	}
	f.Submit(f.Job())
	f.ClaimOne()
	if held, err := f.Store.Workers.Leases(t.Context()); err != nil || len(held) != 1 || held[0] != (workers.Leases{Owner: f.Tenant, WorkerID: "w1", Leases: 1}) {
		t.Errorf("leases are %+v, %v", held, err)
	}
	f.Exec(`UPDATE workers SET status = 'DEAD'`)
	if _, err := f.Store.Workers.Beat(t.Context(), f.Tenant, "w1"); !errors.Is(err, workers.ErrUnknown) {
		t.Errorf("a dead worker: %v", err)
	}
	if seen, joined, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w1", workers.Claiming{}); err != nil || !joined || seen.Status != api.WorkerActive {
		t.Errorf("a dead worker that claims is back: %+v %v", seen, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	if _, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: "http://nonsense", MaxConns: 1, PoolWait: time.Second}}); err == nil {
		t.Error("a URL of another kind was taken")
	}
	config, err := pgx.ParseConfig(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	f.Exec(`ALTER DATABASE ` + config.Database + ` SET synchronous_commit = off`)
	if _, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second}}); err == nil {
		t.Error("asynchronous commit was taken")
	}
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 1, PoolWait: time.Second, AllowUnsafe: true}})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

// A database or a role may have another default isolation: counts are read in a later
// statement than the one that waits for the lock, and have to see what was committed during the wait.
func TestIsolationIsTheStoresOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	config, err := pgx.ParseConfig(f.URL)
	if err != nil {
		t.Fatal(err)
	}
	f.Exec(`ALTER DATABASE ` + config.Database + ` SET default_transaction_isolation = 'repeatable read'`)
	f.Store = celltest.OpenURL(t, f.URL)
	limits := celltest.Under(f.ActiveCap(100))
	holder := celltest.Connect(t, f.URL)
	for range 2 { // with a count that begins, and with one that is there
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, f.Store.LockKey(store.LockSubmit, f.Tenant)); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				if _, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{{Tenant: f.Tenant, Jobs: []submit.NewJob{f.Job(limits)}}}); err != nil {
					t.Error(err)
				}
			})
		}
		celltest.Eventually(t, "all wait for the lock", func() bool {
			return f.CountOf(`SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database AND d.datname = current_database()
				WHERE locktype = 'advisory' AND NOT granted`) == 4
		})
		if _, err := holder.Exec(t.Context(), `SELECT pg_advisory_unlock($1)`, f.Store.LockKey(store.LockSubmit, f.Tenant)); err != nil {
			t.Fatal(err)
		}
		group.Wait()
	}
	f.NoDrift()
}
