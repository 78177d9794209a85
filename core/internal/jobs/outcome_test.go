package jobs_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

func TestCompleteMovesTheJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	if got := f.Get(id); got.State != api.StateQueued || got.Attempt != 0 || string(got.Payload) != `{"n": 1.50, "s":"\u00e9"}` {
		t.Fatalf("submitted: %+v, payload %s", got.JobSummary, got.Payload)
	}
	claimed := f.ClaimOne()
	if claimed.ID != id || claimed.Attempt != 1 || claimed.Epoch != 1 {
		t.Fatalf("claimed: %+v", claimed)
	}
	if got := f.Get(id); got.State != api.StateRunning || *got.WorkerID != "w1" || got.LeaseExpiresAt == nil {
		t.Fatalf("running: %+v", got.JobSummary)
	}
	outcome := f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete, Result: []byte(`{"ok":1e400}`)})
	if outcome.State != api.StateCompleted || outcome.Attempt != 1 || outcome.Epoch != 1 {
		t.Fatalf("outcome: %+v", outcome)
	}
	got := f.Get(id)
	if got.State != api.StateCompleted || string(got.Result) != `{"ok":1e400}` || got.FinishedAt == nil || got.LeaseExpiresAt != nil {
		t.Fatalf("completed: %+v, result %s", got.JobSummary, got.Result)
	}
	if f.Count("jobs") != 0 || f.Count("finished_jobs") != 1 {
		t.Fatal("the job is not in exactly one table")
	}
}

func TestFailBacksOffThenDies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts = 2 }))[0]

	first := f.ClaimOne()
	failure := &api.JobError{Type: "io", Message: "disk 7 is full", Stack: "at a.go:1"}
	outcome := f.MustEnd(jobs.Ending{Lease: first.Lease(), Kind: api.KindFail, Error: failure, Random: 0.5})
	if outcome.State != api.StateScheduled || outcome.Attempt != 1 {
		t.Fatalf("first failure: %+v", outcome)
	}
	got := f.Get(id)
	if wait := got.RunAt.Sub(got.StartedAt.Time); wait < 5*time.Second || wait > 8*time.Second {
		t.Errorf("the backoff after failure 1 is %v, want about 5 s", wait)
	}
	if got.LastError == nil || *got.LastError != *failure || !got.RunAt.Equal(outcome.RunAt.Time) {
		t.Errorf("scheduled: %+v, error %+v", got.JobSummary, got.LastError)
	}
	if len(f.Claim(1, time.Second)) != 0 {
		t.Fatal("a job was claimed before its time")
	}
	f.Exec(`UPDATE jobs SET run_at = statement_timestamp()`)
	if lanes, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 10); err != nil || len(lanes) != 1 || lanes[0].Lane != f.Lane.ID {
		t.Fatalf("promoted %v (%v)", lanes, err)
	}
	second := f.ClaimOne()
	if second.Attempt != 2 || second.Epoch != 2 {
		t.Fatalf("second claim: %+v", second)
	}
	outcome = f.MustEnd(jobs.Ending{Lease: second.Lease(), Kind: api.KindFail, Error: failure})
	if outcome.State != api.StateDeadLetter || *outcome.DeadReason != api.ReasonExhausted {
		t.Fatalf("last failure: %+v", outcome)
	}
	got = f.Get(id)
	if got.State != api.StateDeadLetter || *got.DeadReason != api.ReasonExhausted || got.LastError.Stack != "at a.go:1" {
		t.Fatalf("dead letter: %+v", got.JobSummary)
	}
	if f.Count("attempts") != 2 || f.Count("jobs") != 0 {
		t.Fatal("two failed attempts and no live job were expected")
	}
}

func TestPermanentAndRetryAfter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job(), f.Job())
	one, other := f.ClaimOne(), f.ClaimOne()
	if outcome := f.MustEnd(jobs.Ending{Lease: one.Lease(), Kind: api.KindFail, Permanent: true}); *outcome.DeadReason != api.ReasonPermanent {
		t.Errorf("permanent: %+v", outcome)
	}
	after := 90 * time.Second
	outcome := f.MustEnd(jobs.Ending{Lease: other.Lease(), Kind: api.KindFail, RetryAfter: &after})
	got := f.Get(other.ID)
	if wait := outcome.RunAt.Sub(got.StartedAt.Time); wait < after || wait > after+5*time.Second {
		t.Errorf("retry_after waits %v", wait)
	}
}

func TestSnoozeAndReleaseGiveTheAttemptBack(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))[0]
	for epoch := int64(1); epoch <= 5; epoch++ {
		claimed := f.ClaimOne()
		if claimed.Attempt != 1 || claimed.Epoch != epoch {
			t.Fatalf("claim %d: attempt %d, epoch %d", epoch, claimed.Attempt, claimed.Epoch)
		}
		outcome := f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindRelease})
		if outcome.State != api.StateQueued || outcome.Attempt != 0 {
			t.Fatalf("release: %+v", outcome)
		}
	}
	claimed := f.ClaimOne()
	outcome := f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindSnooze, Delay: time.Hour})
	if outcome.State != api.StateScheduled || outcome.Attempt != 0 || time.Until(outcome.RunAt.Time) < 59*time.Minute {
		t.Fatalf("snooze: %+v", outcome)
	}
	if f.Get(id).State != api.StateScheduled || f.Count("attempts") != 0 {
		t.Fatal("a snoozed job spends no attempt and has no failed one")
	}
}

// The fence: once the lease is taken back, nothing its holder says changes a byte.
func TestStaleHolderChangesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	stale := f.ClaimOne()
	f.Expire(id)
	if reaped := f.Reap(); len(reaped) != 1 || reaped[0].Verdict.State != job.Queued {
		t.Fatalf("reaped %+v", reaped)
	}
	check := func(when string) {
		t.Helper()
		before := f.Row(id)
		for _, kind := range []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease} {
			if ended := f.End(jobs.Ending{Lease: stale.Lease(), Kind: kind, Delay: time.Second}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
				t.Errorf("%s %s: %+v, want a lost lease", when, kind, ended)
			}
		}
		beats, err := f.Store.Jobs.Heartbeat(t.Context(), []job.Lease{stale.Lease()})
		if err != nil || len(beats) != 0 {
			t.Errorf("%s: a stale heartbeat was accepted: %v %v", when, beats, err)
		}
		if after := f.Row(id); after != before {
			t.Errorf("%s: the row changed\nbefore %s\nafter  %s", when, before, after)
		}
	}
	check("queued again")
	fresh := f.ClaimOne()
	if fresh.Epoch != 2 || fresh.LeaseID == stale.LeaseID {
		t.Fatalf("second claim: %+v", fresh)
	}
	check("claimed by another")
	f.MustEnd(jobs.Ending{Lease: fresh.Lease(), Kind: api.KindComplete})
	check("completed by another")
	if got := f.Get(id); got.State != api.StateCompleted || got.Attempt != 2 {
		t.Fatalf("in the end: %+v", got.JobSummary)
	}
}

// Until the reaper has come, a late holder may still speak: the token is the fence.
func TestLateHolderMayFinishBeforeTheReaper(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	claimed := f.ClaimOne()
	f.Expire(id)
	beats, err := f.Store.Jobs.Heartbeat(t.Context(), []job.Lease{claimed.Lease()})
	if err != nil || len(beats) != 1 || time.Until(beats[claimed.Lease()].LeaseExpiresAt) < 20*time.Second {
		t.Fatalf("heartbeat: %v %v", beats, err)
	}
	f.Expire(id)
	f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: api.KindComplete})
}

func TestLeaseLostOnTheLastAttemptIsADeadLetter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))[0]
	f.ClaimOne()
	f.Expire(id)
	reaped := f.Reap()
	if len(reaped) != 1 || reaped[0].Verdict.Reason != job.WorkerLost {
		t.Fatalf("reaped %+v", reaped)
	}
	if got := f.Get(id); got.State != api.StateDeadLetter || *got.DeadReason != api.ReasonWorkerLost {
		t.Fatalf("%+v", got.JobSummary)
	}
	if len(f.Reap()) != 0 {
		t.Fatal("a second reap found something")
	}
}

func TestReaperWaitsForHoldersAfterBoot(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	f.ClaimOne()
	f.Expire(id)
	now, err := f.Store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if reaped, err := f.Store.Jobs.Reap(t.Context(), now, 10, celltest.Half); err != nil || len(reaped) != 0 {
		t.Fatalf("just after boot: %v %v", reaped, err)
	}
	if reaped, err := f.Store.Jobs.Reap(t.Context(), now.Add(-10*time.Second), 10, celltest.Half); err != nil || len(reaped) != 0 {
		t.Fatalf("a third of 30 s after boot: %v %v", reaped, err)
	}
	if reaped, err := f.Store.Jobs.Reap(t.Context(), now.Add(-20*time.Second), 10, celltest.Half); err != nil || len(reaped) != 1 {
		t.Fatalf("two thirds of 30 s after boot: %v %v", reaped, err)
	}
}

func TestTimeoutEndsTheAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	timeout := int64(60_000)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.TimeoutMS = &timeout }))[0]
	claimed := f.Claim(1, time.Hour)[0]
	if got := claimed.LeaseExpiresAt.Sub(claimed.StartedAt); got != time.Minute {
		t.Fatalf("the lease is %v long, want the timeout's minute", got)
	}
	f.Exec(`UPDATE jobs SET started_at = started_at - interval '50 seconds', lease_expires_at = lease_expires_at - interval '50 seconds'`)
	beats, err := f.Store.Jobs.Heartbeat(t.Context(), []job.Lease{claimed.Lease()})
	if err != nil || time.Until(beats[claimed.Lease()].LeaseExpiresAt) > 11*time.Second {
		t.Fatalf("a heartbeat carried the job past its timeout: %v %v", beats, err)
	}
	f.Exec(`UPDATE jobs SET started_at = started_at - interval '50 seconds', lease_expires_at = lease_expires_at - interval '50 seconds'`)
	if reaped := f.Reap(); len(reaped) != 1 || reaped[0].Event != job.Timeout || reaped[0].Verdict.State != job.Scheduled {
		t.Fatalf("reaped %+v", reaped)
	}
	if got := f.Get(id); got.LastError.Type != "timeout" {
		t.Fatalf("%+v", got.LastError)
	}
}

func TestOutcomeIsRepeatable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job(), f.Job())
	t.Run("complete", func(t *testing.T) {
		ending := jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete, Result: []byte(`1`)}
		first, second := f.MustEnd(ending), f.End(ending)
		if second.Err != nil || !second.Replayed || !reflect.DeepEqual(second.Outcome, first) {
			t.Errorf("the repeat got %+v, first %+v", second, first)
		}
		ending.Result = []byte(`2`)
		if ended := f.End(ending); !errors.Is(ended.Err, jobs.ErrOutcomeConflict) {
			t.Errorf("another result: %+v", ended)
		}
		if ended := f.End(jobs.Ending{Lease: ending.Lease, Kind: api.KindFail}); !errors.Is(ended.Err, jobs.ErrOutcomeConflict) {
			t.Errorf("another kind: %+v", ended)
		}
	})
	t.Run("fail", func(t *testing.T) {
		ending := jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "a"}, Random: 0.1}
		first := f.MustEnd(ending)
		ending.Random = 0.9 // the repeat draws again, and must get the first wait
		f.Exec(`UPDATE jobs SET run_at = statement_timestamp() WHERE id = $1`, ending.Lease.Job)
		if _, err := f.Store.Jobs.Promote(t.Context(), jobs.AllTime, 10); err != nil {
			t.Fatal(err)
		}
		second := f.End(ending)
		if second.Err != nil || second.Outcome.State != first.State || !second.Outcome.RunAt.Equal(first.RunAt.Time) {
			t.Errorf("the repeat got %+v, first %+v", second.Outcome, first)
		}
		f.ClaimOne()
		if ended := f.End(ending); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
			t.Errorf("after the next claim: %+v", ended)
		}
	})
}

func TestOneLeaseTwiceInOneCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	lease := f.ClaimOne().Lease()
	ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{
		{Lease: lease, Kind: api.KindComplete}, {Lease: lease, Kind: api.KindComplete}, {Lease: lease, Kind: api.KindFail},
	})
	if ended[0].Err != nil || ended[1].Err != nil || !ended[1].Replayed || !errors.Is(ended[2].Err, jobs.ErrOutcomeConflict) {
		t.Fatalf("%+v", ended)
	}
}

// One call may name a job twice, with a lease that holds and one that does not.
func TestHeldAndStaleLeaseOfOneJobInOneCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	stale := f.ClaimOne().Lease()
	f.Expire(id)
	f.Reap()
	held := f.ClaimOne().Lease()
	beats, err := f.Store.Jobs.Heartbeat(t.Context(), []job.Lease{stale, held})
	if _, ok := beats[held]; err != nil || len(beats) != 1 || !ok {
		t.Fatalf("%v %v", beats, err)
	}
	ended := f.Store.Jobs.End(t.Context(), []jobs.Ending{{Lease: stale, Kind: api.KindComplete}, {Lease: held, Kind: api.KindComplete}})
	if !errors.Is(ended[0].Err, jobs.ErrLeaseLost) || ended[1].Err != nil {
		t.Fatalf("%+v", ended)
	}
	if f.Count("finished_jobs") != 1 {
		t.Fatalf("%d finished rows", f.Count("finished_jobs"))
	}
}

func TestForeignIsLikeUnknown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	claimed := f.ClaimOne()
	stranger := f.NewTenant()
	if _, err := f.Store.JobReads.Get(t.Context(), stranger, "", id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
	if _, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "somebody", id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("get for a user: %v", err)
	}
	if _, err := jobs.ParseLease(stranger, id, claimed.Lease().Token()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another tenant's token: %v", err)
	}
	forged := claimed.Lease()
	forged.Tenant = stranger
	before := f.Row(id)
	if ended := f.End(jobs.Ending{Lease: forged, Kind: api.KindComplete}); !errors.Is(ended.Err, store.ErrNotFound) {
		t.Errorf("a token with a forged tenant: %+v", ended)
	}
	lease, err := jobs.ParseLease(stranger, id, "garbage")
	if err != nil {
		t.Fatal(err)
	}
	if ended := f.End(jobs.Ending{Lease: lease, Kind: api.KindComplete}); !errors.Is(ended.Err, store.ErrNotFound) {
		t.Errorf("a stranger's garbage: %+v", ended)
	}
	lease, _ = jobs.ParseLease(f.Tenant, id, "garbage")
	if ended := f.End(jobs.Ending{Lease: lease, Kind: api.KindComplete}); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the tenant's own garbage: %+v", ended)
	}
	unknown, _ := jobs.ParseLease(f.Tenant, uuid.New(), "garbage")
	if ended := f.End(jobs.Ending{Lease: unknown, Kind: api.KindFail}); !errors.Is(ended.Err, store.ErrNotFound) {
		t.Errorf("an unknown job: %+v", ended)
	}
	if f.Row(id) != before {
		t.Error("the row changed")
	}
}

func TestCancelRequestedWinsOverAllButComplete(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease, "lease end"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			id := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts = 1 }))[0]
			claimed := f.ClaimOne()
			f.Exec(`UPDATE jobs SET cancel_requested = true WHERE id = $1`, id)
			if beats, err := f.Store.Jobs.Heartbeat(t.Context(), []job.Lease{claimed.Lease()}); err != nil || !beats[claimed.Lease()].CancelRequested {
				t.Fatalf("the holder did not get it: %v %v", beats, err)
			}
			want := api.StateCancelled
			switch kind {
			case "lease end":
				f.Expire(id)
				f.Reap()
			case api.KindComplete:
				want = api.StateCompleted
				fallthrough
			default:
				if outcome := f.MustEnd(jobs.Ending{Lease: claimed.Lease(), Kind: kind, Delay: time.Second}); outcome.State != want {
					t.Fatalf("outcome %+v", outcome)
				}
			}
			if got := f.Get(id); got.State != want || got.DeadReason != nil {
				t.Fatalf("%+v", got.JobSummary)
			}
		})
	}
}

// A snooze that says why is shown with the job, and is no failed attempt.
func TestSnoozeWithAReason(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Job())
	claimed := f.ClaimOne()
	ended := f.End(jobs.Ending{
		Lease: claimed.Lease(), Kind: api.KindSnooze, Delay: time.Minute, Error: &api.JobError{Type: "no_handler", Message: "no handler for greeet"},
	})
	if ended.Err != nil {
		t.Fatal(ended.Err)
	}
	got, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "", claimed.ID)
	if err != nil || got.LastError == nil || got.LastError.Type != "no_handler" || got.Attempt != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	attempts, err := f.Store.JobReads.Attempts(t.Context(), f.Tenant, "", claimed.ID, 0, 10)
	if err != nil || len(attempts) != 0 {
		t.Errorf("%+v, %v", attempts, err)
	}
}
