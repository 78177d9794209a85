package directory_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// inhabit gives a tenant some of all that a tenant can have.
func (f *fixture) inhabit(owner tenant.ID) {
	f.Helper()
	ctx, must := audit.WithActor(f.Context(), audit.Actor{Kind: "operator"}), func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	in := &fixture{&celltest.Fixture{T: f.T, URL: f.URL, Store: f.Store, Tenant: owner, Direct: f.Direct}}
	in.Lane = in.NewLane(owner, "default")
	in.Exec(`INSERT INTO lanes (tenant_id, queue, tags, created_at) VALUES ($1, 'old', '{}', statement_timestamp())`, owner) // of the version before
	must(f.Store.PutQueue(ctx, owner, "default", api.QueueRequest{MaxRunning: new(int64(9))}))
	capped := func(j *submit.NewJob) { j.Caps = []usage.Cap{in.ActiveCap(1000)} }
	in.Submit(in.Jobs(6, capped)...)
	for i := range 4 {
		in.MustEnd(queue.Ending{Lease: in.ClaimOne().Lease(), Kind: []string{api.KindComplete, api.KindFail}[i%2], Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
	}
	in.ClaimOne() // one runs
	parent := in.Submit(in.Job(capped, func(j *submit.NewJob) { j.Delay = time.Hour }))[0]
	in.Submit(in.Job(capped, func(j *submit.NewJob) { j.After = []submit.After{{Parent: parent, OnFailed: job.HoldChild}} }))
	in.TrySubmit(in.Single(celltest.Keyed("k", "b")))
	every := int64(3_600_000)
	_, err := f.Store.PutSchedule(ctx, owner, "", "s", api.ScheduleRequest{EveryMS: &every, Job: api.ScheduleJob{Type: "t"}})
	must(err)
	_, _, err = f.Store.PutType(ctx, owner, "t", api.JobTypeRequest{})
	must(err)
	_, err = f.Store.CreateRedrive(ctx, owner, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive})
	must(err)
	_, err = f.Store.CreateKey(ctx, api.HopKeyCreateRequest{KeyID: "k" + owner.String(), Kind: "tenant", Tenant: owner.String(), Scopes: []string{"read"}, SecretHMAC: make([]byte, 32)})
	must(err)
	flow := uuid.Must(uuid.NewV7())
	f.Exec(`INSERT INTO workflows (id, tenant_id, name, metadata, created_at) VALUES ($1, $2, 'w', '{}', now())`, flow, owner)
	f.Exec(`INSERT INTO workflow_jobs (workflow_id, ref, job_id) VALUES ($1, 'r', $2)`, flow, parent)
	f.Exec(`INSERT INTO schedule_runs (tenant_id, name, at, skipped) VALUES ($1, 's', now(), 'cap')`, owner)
	f.Exec(`INSERT INTO rate_log (tenant_id, queue, seq, due) VALUES ($1, 'q', 1, now())`, owner)
	f.Exec(`INSERT INTO ledger VALUES ($1, 'day', '', now()::date, 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO ledger_entries VALUES ($1, now()::date, 't', '', 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO limit_stats VALUES ($1, 'tenant-active', '', 0, now(), 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO job_stats VALUES ($1, 'q', 0, now(), 1, 1, 1, 1, 1, 1, 1, 1)`, owner)
	f.Exec(`INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at) VALUES ($1, gen_random_uuid(), 'completed', 0, now())`, owner)
	f.Exec(`INSERT INTO webhooks (tenant_id, name, events, created_at, updated_at) VALUES ($1, 'hook', '{job.completed}', now(), now())`, owner)
	f.Exec(`INSERT INTO webhook_events (tenant_id, webhook, kind, id, finished_at) VALUES ($1, 'hook', 'job.completed', gen_random_uuid(), now())`, owner)
	f.Exec(`INSERT INTO usage_counts (tenant_id, counter, name, opened_at, settled) VALUES ($1, 1, '', now(), true) ON CONFLICT DO NOTHING`, owner)
	f.Exec(`INSERT INTO workers (owner, worker_id, status, queues, tags, concurrency, metadata, registered_at, last_heartbeat_at)
	 VALUES ($1, 'w9', 'ACTIVE', '{}', '{}', 1, '{}', now(), now())`, owner)
}

// rows counts a tenant's rows in every table that has a column for whose they are.
func (f *fixture) rows(owner tenant.ID) map[string]int {
	f.Helper()
	columns, err := f.Direct.Query(f.Context(), `
SELECT table_name, column_name FROM information_schema.columns JOIN pg_class ON relname = table_name AND NOT relispartition
WHERE table_schema = 'public' AND column_name IN ('tenant_id', 'owner')`)
	if err != nil {
		f.Fatal(err)
	}
	owners := map[string]string{}
	for columns.Next() {
		var table, column string
		if err := columns.Scan(&table, &column); err != nil {
			f.Fatal(err)
		}
		owners[table] = column
	}
	counts := map[string]int{}
	for table, column := range owners {
		var n int
		if err := f.Direct.QueryRow(f.Context(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s = $1`, table, column), owner).Scan(&n); err != nil {
			f.Fatal(err)
		}
		counts[table] = n
	}
	return counts
}

func (f *fixture) wantSound(when string) {
	f.Helper()
	drifts, err := f.Store.Verify(f.Context())
	if err != nil || len(drifts) > 0 {
		f.Errorf("%s: %v, %v", when, drifts, err)
	}
	waits, err := f.Store.VerifyDependencies(f.Context())
	if err != nil || len(waits) > 0 {
		f.Errorf("%s: %v, %v", when, waits, err)
	}
}

// All of a deleted tenant goes, step by step, whichever core takes the next one and wherever one stops; what is
// another tenant's stays, and the counts are right after each step.
func TestADeletedTenantLeavesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gone, stays := f.NewTenant(), f.NewTenant()
	f.inhabit(gone)
	f.inhabit(stays)
	had, others := f.rows(gone), f.rows(stays)
	for table, n := range had {
		if n == 0 {
			t.Errorf("the tenant has no %s: the test shows nothing of it", table)
		}
	}
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "operator"})
	for range 2 {
		shown, err := f.Store.DeleteTenant(ctx, gone)
		if err != nil || shown.Deletion == nil || shown.Deletion.State != api.DeletionRunning {
			t.Fatalf("%+v, %v", shown, err)
		}
	}
	if _, err := f.Store.LookupKey(t.Context(), "k"+gone.String()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("its key: %v", err)
	}
	_, err := f.Store.CreateKey(t.Context(), api.HopKeyCreateRequest{KeyID: "late", Kind: "tenant", Tenant: gone.String(), Scopes: []string{"read"}, SecretHMAC: make([]byte, 32)})
	if !errors.Is(err, directory.ErrTenantDeleted) {
		t.Errorf("a new key: %v", err)
	}
	if due, err := f.Store.DueSchedules(t.Context(), 10); err != nil || len(due) > 0 {
		t.Errorf("due schedules: %v, %v", due, err)
	}
	cores := []*cell.Cell{f.Store, celltest.OpenURL(t, f.URL)}
	removed := 0
	for step := 0; ; step++ {
		n, err := cores[step%2].RemoveTenantData(t.Context(), gone, 1+step%3)
		if err != nil {
			t.Fatal(err)
		}
		f.wantSound(fmt.Sprintf("step %d", step))
		if removed += n; n == 0 {
			break
		}
	}
	if shown, err := f.Store.GetTenant(t.Context(), gone); err != nil || shown.Deletion.State != api.DeletionRunning || shown.Deletion.Removed != int64(removed) {
		t.Errorf("before others have settled: %+v, %v", shown.Deletion, err)
	}
	// A job that a core stored with what it had cached goes too.
	f.Submit(f.Job())
	f.Exec(`UPDATE jobs SET tenant_id = $1 WHERE tenant_id = $2`, gone, f.Tenant)
	f.Exec(`UPDATE tenants SET deleting_at = deleting_at - interval '3 minutes' WHERE id = $1`, gone)
	for {
		if n, err := cores[0].RemoveTenantData(t.Context(), gone, 100); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
	}
	shown, err := f.Store.GetTenant(t.Context(), gone)
	if err != nil || shown.Deletion.State != api.DeletionDone || shown.Deletion.EndedAt == nil || shown.Deletion.Removed <= int64(removed) {
		t.Errorf("%+v, %v", shown.Deletion, err)
	}
	for table, n := range f.rows(gone) {
		if n > 0 != (table == "audit_log") {
			t.Errorf("%d rows are left in %s", n, table)
		}
	}
	for table, n := range f.rows(stays) {
		if n != others[table] {
			t.Errorf("another tenant has %d rows in %s, and had %d", n, table, others[table])
		}
	}
	if n := f.Count("dependencies") + f.Count("workflow_jobs"); n != 2 {
		t.Errorf("%d edges and refs are left", n)
	}
	f.wantSound("at the end")
	if page, err := f.Store.ListTenants(t.Context(), nil, 10); err != nil || strings.Contains(fmt.Sprint(page), gone.String()) {
		t.Errorf("the list: %v, %v", page, err)
	}
	if again, err := f.Store.DeleteTenant(ctx, gone); err != nil || again.Deletion.State != api.DeletionDone {
		t.Errorf("again: %+v, %v", again, err)
	}
	if ids, err := f.Store.DeletingTenants(t.Context(), 10); err != nil || len(ids) > 0 {
		t.Errorf("still to be removed: %v, %v", ids, err)
	}
	if _, err := f.Store.DeleteTenant(ctx, uuid.New()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown one: %v", err)
	}
}
