package retention_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/retention"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestRetention(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	day := 24 * time.Hour
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second}, Retention: retention.Periods{Finished: 7 * day, DeadLetters: 30 * day, Audit: 365 * day}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	for _, age := range []int{8, 9, 40} {
		for _, table := range []string{"finished_jobs", "attempts"} {
			at := time.Now().UTC().AddDate(0, 0, -age)
			name := table + "_" + at.Format("20060102")
			f.Exec(`CREATE TABLE ` + name + ` (LIKE ` + table + ` INCLUDING ALL)`)
			f.Exec(`ALTER TABLE ` + table + ` ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + at.Format(time.DateOnly) +
				` 00:00+00') TO ('` + at.AddDate(0, 0, 1).Format(time.DateOnly) + ` 00:00+00')`)
		}
	}
	// One that an earlier run detached and did not live to drop.
	orphan := "finished_jobs_" + time.Now().UTC().AddDate(0, 0, -9).Format("20060102")
	f.Exec(`ALTER TABLE finished_jobs DETACH PARTITION ` + orphan)
	f.Exec(`COMMENT ON TABLE ` + orphan + ` IS 'forgequeue: past its retention, detached to be dropped (finished_jobs)'`)
	dropped, err := store.Retention.DropPartitions(t.Context())
	if err != nil || len(dropped) != 4 { // finished: 8, 9 and 40 days; attempts: 40
		t.Fatalf("%v %v", dropped, err)
	}
	if again, err := store.Retention.DropPartitions(t.Context()); err != nil || len(again) != 0 {
		t.Fatalf("a repeat: %v %v", again, err)
	}

	f.Submit(f.Job(), f.Job())
	for range 2 {
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true})
	}
	f.Exec(`UPDATE dead_letters SET died_at = died_at - interval '31 days' WHERE id = (SELECT id FROM dead_letters LIMIT 1)`)
	if n, err := store.DeadLetters.ForgetDead(t.Context(), 10); err != nil || n != 1 || f.Count("dead_letters") != 1 {
		t.Fatalf("%d %v", n, err)
	}

	// Of redrives only those that have ended go, with their age counted from there.
	for range 3 {
		f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	}
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '40 days'`)
	f.Exec(`UPDATE redrives SET state = 'done', ended_at = statement_timestamp() - interval '31 days' WHERE id = (SELECT id FROM redrives LIMIT 1)`)
	if n, err := store.Retention.ForgetRedrives(t.Context(), 10); err != nil || n != 1 || f.Count("redrives") != 2 {
		t.Fatalf("%d redrives, %v", n, err)
	}
	ctx := audit.WithActor(t.Context(), audit.Actor{Kind: "tenant"})
	if err := errors.Join(f.Store.Queues.Put(ctx, f.Tenant, "q", api.QueueRequest{}), f.Store.Queues.Pause(ctx, f.Tenant, "q", true)); err != nil {
		t.Fatal(err)
	}
	f.Exec(`UPDATE audit_log SET at = at - interval '366 days' WHERE action = 'queue.put'`)
	if n, err := store.Retention.ForgetAudit(t.Context(), 10); err != nil || n != 1 || f.Count("audit_log WHERE action = 'queue.put'") != 0 || f.Count("audit_log") != 1 {
		t.Fatalf("%d audit entries, %v", n, err)
	}
}

// A reader that is older than the removal of a day holds up the removal, and
// nothing else: completes go on.
func TestOldReaderDoesNotHoldUpCompletes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	store, err := cell.Open(t.Context(), cell.Options{Options: store.Options{URL: f.URL, MaxConns: 4, PoolWait: time.Second}, Retention: retention.Periods{Finished: 24 * time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	at := time.Now().UTC().AddDate(0, 0, -5)
	name := "finished_jobs_" + at.Format("20060102")
	f.Exec(`CREATE TABLE ` + name + ` (LIKE finished_jobs INCLUDING ALL)`)
	f.Exec(`ALTER TABLE finished_jobs ATTACH PARTITION ` + name + ` FOR VALUES FROM ('` + at.Format(time.DateOnly) +
		` 00:00+00') TO ('` + at.AddDate(0, 0, 1).Format(time.DateOnly) + ` 00:00+00')`)

	reader := celltest.Connect(t, f.URL)
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT count(*) FROM finished_jobs`); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Retention.DropPartitions(context.WithoutCancel(t.Context()))
		done <- err
	}()
	// Until the detach waits for the reader.
	for f.Count(`pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database())`) == 0 {
		select {
		case err := <-done:
			t.Fatalf("the removal did not wait for the reader: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	for range 20 {
		f.Submit(f.Job())
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	}
	if err := store.Retention.MakePartitions(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("the removal has ended while the reader was there: %v", err)
	default:
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f.Count(`pg_class WHERE relname = '`+name+`'`) != 0 {
		t.Error("the day is still there")
	}
}
