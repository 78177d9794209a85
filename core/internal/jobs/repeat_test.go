package jobs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/workers"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What the model found, and what only a race would show, each as a plain story.

// A repeat gets the same answer until the next claim, in every state of the job.
func TestRepeatGetsTheSameAnswerUntilTheNextClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	ending := jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Random: 0.5}
	first := f.MustEnd(ending)
	repeat := func(when string) {
		t.Helper()
		got := f.End(ending)
		if got.Err != nil || !got.Replayed || got.Outcome.State != first.State || !got.Outcome.RunAt.Equal(first.RunAt.Time) {
			t.Errorf("%s: %+v, first %+v", when, got, first)
		}
		if got := f.End(jobs.Ending{Lease: ending.Lease, Kind: api.KindComplete}); !errors.Is(got.Err, jobs.ErrOutcomeConflict) {
			t.Errorf("%s, another kind: %+v", when, got)
		}
	}
	repeat("scheduled")
	f.Exec(`UPDATE jobs SET deadline = statement_timestamp() - interval '1 second'`)
	if expired, err := f.Store.Jobs.ExpireDeadlines(t.Context(), jobs.AllTime, 10); err != nil || len(expired) != 1 {
		t.Fatalf("%+v %v", expired, err)
	}
	repeat("expired by its deadline")
	if got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{id}, nil)[0]; got.Err != nil {
		t.Fatal(got.Err)
	}
	repeat("redriven")
	f.ClaimOne()
	if got := f.End(ending); !errors.Is(got.Err, jobs.ErrLeaseLost) {
		t.Errorf("claimed again: %+v", got)
	}
}

// In one flush the conflict of one caller is not the answer to another, which reports
// what is on record.
func TestRepeatAndConflictInOneCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	lease := f.ClaimOne().Lease()
	f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindComplete})
	got := f.Store.Jobs.End(t.Context(), []jobs.Ending{{Lease: lease, Kind: api.KindFail}, {Lease: lease, Kind: api.KindComplete}})
	if !errors.Is(got[0].Err, jobs.ErrOutcomeConflict) || got[1].Err != nil || !got[1].Replayed {
		t.Fatalf("%+v", got)
	}
}

// What a dead worker leaves has not timed out, though its lease would have ended
// with its timeout.
func TestDeadWorkersAttemptIsNoTimeout(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	timeout := int64(60_000)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.TimeoutMS, j.MaxAttempts = &timeout, 1 }))[0]
	if _, _, err := f.Store.Workers.SeenClaiming(t.Context(), f.Tenant, "w1", workers.Claiming{}); err != nil {
		t.Fatal(err)
	}
	f.Claim(1, time.Hour)
	f.Exec(`UPDATE workers SET status = 'DEAD'`)
	reaped, err := f.Store.Jobs.ReapDead(t.Context(), 10, celltest.Half)
	if err != nil || len(reaped) != 1 || reaped[0].Event != job.LeaseExpired || reaped[0].Verdict.Reason != job.WorkerLost {
		t.Fatalf("%+v %v", reaped, err)
	}
	if got := f.Get(id); got.LastError.Type != "lease_expired" {
		t.Fatalf("%+v", got.LastError)
	}
}

// A heartbeat comes while the reaper runs: the lease that it renewed is not
// taken back.
func TestReaperLeavesALeaseThatIsBeingRenewed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	claimed := f.ClaimOne()
	f.Expire(id)
	heartbeat, err := f.Direct.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = heartbeat.Rollback(background(t)) }()
	if _, err := heartbeat.Exec(t.Context(), `UPDATE jobs SET lease_expires_at = statement_timestamp() + interval '30 seconds'`); err != nil {
		t.Fatal(err)
	}
	done := make(chan []jobs.Change, 1)
	go func() {
		reaped, err := f.Store.Jobs.Reap(background(t), time.Unix(0, 0), 10, celltest.Half)
		if err != nil {
			t.Error(err)
		}
		done <- reaped
	}()
	// Until the reaper has passed the row by, or waits for it.
	watch := celltest.Connect(t, f.URL)
	celltest.Eventually(t, "the reaper has seen the lease", func() bool {
		var waiting int
		if err := watch.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting); err != nil {
			t.Fatal(err)
		}
		return waiting > 0 || len(done) > 0
	})
	if err := heartbeat.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if reaped := <-done; len(reaped) != 0 {
		t.Errorf("a renewed lease was taken back: %+v", reaped)
	}
	f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete})
}
