package caps_test

import (
	"errors"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// The check compares one count after the other, on one core at a time, and gives up on
// one that takes too long.
func TestCheckCounts(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Submit(f.Jobs(2, celltest.Of("ann"), celltest.Under(f.ActiveCap(9), f.UserCap("ann", 9), f.QueueCap("default", 9)))...)
	f.Submit(f.Jobs(2, celltest.Under(f.ActiveCap(9)))...)
	keys := []caps.CountKey{f.ActiveCap(0).CountKey, f.UserCap("ann", 0).CountKey, f.QueueCap("default", 0).CountKey, f.RunningCap(0).CountKey}
	check := func() ([]caps.Drift, int, error) { return f.Store.Counts.CheckCounts(t.Context(), keys, time.Hour) }
	if drifts, checked, err := check(); err != nil || checked != 4 || len(drifts) != 0 {
		t.Fatalf("%v, %d checked (%v)", drifts, checked, err)
	}
	f.Exec(`UPDATE usage_log SET count = count + 1 WHERE counter = 2`)
	f.Exec(`UPDATE usage_counts SET settled = true`)
	if drifts, _, err := check(); err != nil || len(drifts) != 2 || drifts[0].Check != "count" || drifts[1].Check != "uncounted" {
		t.Errorf("found %v (%v), want ann's count and two jobs that are not in the queue's", drifts, err)
	}
	if _, checked, err := f.Store.Counts.CheckCounts(t.Context(), keys, 0); err != nil || checked != 1 {
		t.Errorf("%d checked in no time (%v), want 1", checked, err)
	}
	other := celltest.Connect(t, f.URL)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, f.Store.LockKey(store.LockCheck, tenant.Platform)); err != nil {
		t.Fatal(err)
	}
	if _, checked, err := check(); err != nil || checked != 0 {
		t.Errorf("%d checked during another core's run (%v)", checked, err)
	}
	_ = tx.Rollback(t.Context())
	if tx, err = other.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	f.Store.Counts.SetCheckTime(50 * time.Millisecond)
	if _, checked, err := check(); !errors.Is(err, caps.ErrCheckTime) || checked != 0 {
		t.Errorf("%d checked, %v, want ErrCheckTime", checked, err)
	}
	_ = tx.Rollback(t.Context())
}

// What Tally.mayFill goes by: no row is smaller, the smallest that a submit can make included.
func TestSmallestJob(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	f.Fill(1, "")
	f.Submit(f.Job(func(j *submit.NewJob) { j.Type, j.Payload, j.Metadata = "t", []byte("1"), []byte("{}") }))
	f.Exec(`UPDATE jobs SET queue = 'q'`)
	if least := f.CountOf(`SELECT min(pg_column_size(jobs.*)) FROM jobs`); least < caps.MinJobSize {
		t.Errorf("a job of %d bytes", least)
	}
}

// Every statement stays on its indexes, with statistics and without.
func TestPlansOfCounts(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.CheckPlans("empty", caps.Planned())
	f.Fill(20_000, "ann")
	f.CheckPlans("full, without statistics", caps.Planned())
	f.Exec("ANALYZE")
	f.CheckPlans("full, with statistics", caps.Planned())
}
