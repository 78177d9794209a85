package failover_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/failover"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The copy of a database is what a standby has that was promoted; what the database did since is what is lost. The copy goes on, as a
// promoted standby does, and that is not reported.
func TestWhatAStandbyDidNotReceive(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Exec(`INSERT INTO job_stats VALUES ($1, '', 0, now(), 1, 1, 1, 1, 1, 1, 1, 1)`, f.Tenant)
	kept := f.Submit(f.Jobs(9)...)
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	running := f.ClaimOne()
	f.Store.Close()
	if err := f.Direct.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	promoted := reopened(f, celltest.Clone(t, f.URL))
	old := reopened(f, f.URL)

	var want []string
	expect := func(says string, id uuid.UUID) {
		want = append(want, fmt.Sprintf("%s: job %s of tenant %s, queue %q", says, id, f.Tenant, "default"))
	}
	for i, kind := range []string{api.KindComplete, api.KindFail} {
		one := old.ClaimOne()
		old.MustEnd(jobs.Ending{Lease: one.Lease(), Kind: kind, Permanent: true, Error: &api.JobError{Type: "t", Message: "m"}})
		expect([]string{"not ended, was completed", "not ended, was dead_letter"}[i], one.ID)
	}
	undone := old.ClaimOne()
	expect("claim undone", undone.ID)
	for _, id := range old.Submit(old.Jobs(3)...) {
		expect("lost, queued", id)
	}
	lane := old.NewLane(f.Tenant, "default", "apart")
	ended := old.Submit(old.Job(func(j *submit.NewJob) { j.Lane, j.Tags = lane.ID, []string{"apart"} }))[0]
	old.MustEnd(jobs.Ending{Lease: old.Claim(1, time.Minute, lane)[0].Lease(), Kind: api.KindComplete})
	expect("lost, completed", ended)
	operator := audit.WithActor(t.Context(), audit.Actor{Kind: "operator"})
	if _, err := old.Store.Tenants.Patch(operator, f.Tenant, api.TenantPatch{Weight: new(7)}); err != nil {
		t.Fatal(err)
	}
	var at time.Time
	if err := old.Direct.QueryRow(t.Context(), `SELECT at FROM audit_log WHERE action = $1`, api.AuditTenantPatch).Scan(&at); err != nil {
		t.Fatal(err)
	}
	want = append(want, fmt.Sprintf("change lost: tenant %s: %s %[1]s, at %[3]s, by operator", f.Tenant, api.AuditTenantPatch, at.UTC().Format("2006-01-02T15:04:05.000Z")))

	promoted.MustEnd(jobs.Ending{Lease: running.Lease(), Kind: api.KindComplete})
	promoted.Submit(promoted.Job())
	var got []string
	if err := failover.Lost(t.Context(), old.Store, promoted.Store, time.Hour, func(line string) { got = append(got, line) }); err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("of %d jobs it found\n%q\nwant\n%q", len(kept), got, want)
	}
}

// reopened is a fixture of the same tenant on another database.
func reopened(f *celltest.Fixture, databaseURL string) *celltest.Fixture {
	other := &celltest.Fixture{T: f.T, URL: databaseURL, Tenant: f.Tenant, Lane: f.Lane}
	other.Store, other.Direct = celltest.OpenURL(f.T, databaseURL), celltest.Connect(f.T, databaseURL)
	return other
}

// A session that may only read is enough for the old primary.
func TestTheOldPrimaryIsOnlyRead(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Submit(f.Jobs(2)...)
	old, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 2, PoolWait: 5 * time.Second, ReadOnly: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	if _, err := old.Tenants.Create(t.Context(), uuid.Must(uuid.NewV7()), api.TenantRequest{Name: "test"}); err == nil {
		t.Error("it can write")
	}
	if err := failover.Lost(t.Context(), old, f.Store, time.Hour, func(line string) { t.Errorf("a database and itself: %s", line) }); err != nil {
		t.Fatal(err)
	}
}
