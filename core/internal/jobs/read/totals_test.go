package read_test

import (
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestTotals(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.Exec(`ALTER TABLE jobs SET (autovacuum_enabled = false)`)
	expect := func(most int64, want read.Totals) {
		t.Helper()
		got, err := f.Store.JobReads.Totals(t.Context(), most)
		if err != nil || got.Now.IsZero() {
			t.Fatalf("%+v %v", got, err)
		}
		if got.Now = (time.Time{}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	exactly := func(n int64) read.Total { return read.Total{N: n} }
	capped := func(n int64) read.Total { return read.Total{N: n, Capped: true} }
	expect(10, read.Totals{})

	f.Submit(f.Jobs(2, func(j *submit.NewJob) { j.Priority = 9 })...)
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true})
	f.ClaimOne()
	f.Submit(f.Jobs(4, func(j *submit.NewJob) { j.Delay = time.Hour })...)
	f.Submit(f.Jobs(5)...)
	want := read.Totals{Scheduled: exactly(4), Queued: exactly(5), Running: exactly(1), DeadLetter: exactly(1)}
	expect(10, want)
	// Beyond the limit: what was counted, as long as PostgreSQL has no estimate.
	want.Scheduled, want.Blocked, want.Waiting, want.Queued = capped(3), capped(0), capped(0), capped(3)
	expect(3, want)
	f.Exec(`ANALYZE jobs`)
	want.Scheduled, want.Queued = capped(4), capped(5)
	expect(3, want)
}

// What holds up the count, dead entries under an old snapshot or here a lock, does so for
// no longer than it may take: then there is the estimate.
func TestTotalsThatTakeTooLong(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixtureOn(t, celltest.NewURL(t))
	f.Submit(f.Jobs(7)...)
	f.Exec(`ANALYZE`)
	other := celltest.Connect(t, f.URL)
	tx, err := other.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	got, err := f.Store.JobReads.Totals(t.Context(), 10)
	if err != nil || got.Queued != (read.Total{N: 7, Capped: true}) || !got.Running.Capped {
		t.Errorf("%+v %v", got, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// What an ending is counted as is what it came to: a deferral that has gone on for too
// long is a fail.
func TestKindOfAnEnding(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	for _, one := range []struct {
		deferred string // how long ago for the first time
		ending   jobs.Ending
		want     string
	}{
		{"0", jobs.Ending{Kind: api.KindComplete}, api.KindComplete},
		{"0", jobs.Ending{Kind: api.KindRelease}, api.KindRelease},
		{"1 hour", jobs.Ending{Kind: api.KindSnooze, Deferral: 2 * time.Hour}, api.KindSnooze},
		{"3 hours", jobs.Ending{Kind: api.KindSnooze, Deferral: 2 * time.Hour}, api.KindFail},
	} {
		f.Exec(`DELETE FROM jobs`)
		f.Submit(f.Job())
		one.ending.Lease = f.ClaimOne().Lease()
		f.Exec(`UPDATE jobs SET deferred_since = statement_timestamp() - $1::interval`, one.deferred)
		if got := f.End(one.ending); got.Err != nil || got.Kind != one.want {
			t.Errorf("a %s of a job deferred %s ago is a %q, not a %s: %v", one.ending.Kind, one.deferred, got.Kind, one.want, got.Err)
		}
	}
}
