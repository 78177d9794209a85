package submit_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestIdempotentReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.TrySubmit(f.Single(celltest.Keyed("k1", "a")))[0]
	if first.Problem != nil || first.Replayed || first.Saved.Status != 202 {
		t.Fatalf("first: %+v", first)
	}
	// The job may have moved on, or be gone: the answer stays what it was.
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	second := f.TrySubmit(f.Single(celltest.Keyed("k1", "a")))[0]
	if !second.Replayed || second.Saved.Status != 202 || string(second.Saved.Body) != string(first.Saved.Body) || second.Accepted != 0 {
		t.Fatalf("replay: %+v\n%s\n%s", second, first.Saved.Body, second.Saved.Body)
	}
	if other := f.TrySubmit(f.Single(celltest.Keyed("k1", "b")))[0]; other.Problem == nil || other.Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", other)
	}
	another := celltest.Keyed("k1", "a")
	another.Operation = "submit_batch"
	if fresh := f.TrySubmit(f.Single(another))[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another operation: %+v", fresh)
	}
	bound := f.Single(celltest.Keyed("k1", "a"))
	bound.User = "bob"
	if fresh := f.TrySubmit(bound)[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another user: %+v", fresh)
	}
	stranger := f.Single(celltest.Keyed("k1", "a"))
	stranger.Tenant = f.NewTenant()
	if fresh := f.TrySubmit(stranger)[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another tenant: %+v", fresh)
	}
	if f.Count("jobs") != 3 || f.Count("finished_jobs") != 1 {
		t.Errorf("%d live, %d finished", f.Count("jobs"), f.Count("finished_jobs"))
	}
}

func TestManyEqualSubmitsAtOnceAreOneJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const callers = 40
	answers := make([]submit.Answer, callers)
	var group sync.WaitGroup
	for i := range callers {
		submission := f.Single(celltest.Keyed("k", "a"))
		group.Go(func() {
			got, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{submission})
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = got[0]
		})
	}
	group.Wait()
	first := 0
	for _, a := range answers {
		if !a.Replayed {
			first++
		}
		if string(celltest.ResponseTo(&a).Body) != string(celltest.ResponseTo(&answers[0]).Body) {
			t.Fatalf("two answers differ:\n%s\n%s", celltest.ResponseTo(&a).Body, celltest.ResponseTo(&answers[0]).Body)
		}
	}
	if first != 1 || f.Count("jobs") != 1 || f.Count("idempotency_keys") != 1 {
		t.Fatalf("%d first answers, %d jobs, %d keys", first, f.Count("jobs"), f.Count("idempotency_keys"))
	}
}

func TestOneKeyTwiceInOneFlush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	answers := f.TrySubmit(f.Single(celltest.Keyed("k", "a")), f.Single(nil), f.Single(celltest.Keyed("k", "a")), f.Single(celltest.Keyed("k", "b")))
	if answers[0].Replayed || answers[1].Replayed || !answers[2].Replayed || string(answers[2].Saved.Body) != string(answers[0].Saved.Body) {
		t.Errorf("%+v", answers)
	}
	if answers[3].Problem == nil || answers[3].Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", answers[3])
	}
	if f.Count("jobs") != 2 {
		t.Errorf("%d jobs, want 2", f.Count("jobs"))
	}
}

// A time to live counts from when the job is stored, by PostgreSQL's clock, whichever way it is stored.
func TestATimeToLiveMakesTheDeadline(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ms, deadline := int64(90_000), time.Now().Add(time.Hour).Truncate(time.Microsecond)
	lives := func(j *submit.NewJob) { j.ExpiresAfterMS = &ms }
	plain := submit.Submission{Tenant: f.Tenant, Batch: true, Jobs: []submit.NewJob{
		f.Job(), f.Job(lives), f.Job(func(j *submit.NewJob) { j.Deadline = &deadline }), f.Job(lives, func(j *submit.NewJob) { j.Delay = time.Minute }),
	}}
	for name, submission := range map[string]submit.Submission{
		"plain": plain, "with a key": f.Single(celltest.Keyed("k", "a"), lives),
		"with a dedupe_key": f.Single(nil, lives, func(j *submit.NewJob) { j.DedupeKey = new("d") }),
		"under a cap":       f.Single(nil, lives, celltest.Under(f.ActiveCap(10))),
	} {
		answer := f.TrySubmit(submission)[0]
		for i := range submission.Jobs {
			job := submission.Jobs[i]
			row := answer.Jobs[i].Row
			if row == nil {
				t.Fatalf("%s: %+v", name, answer)
			}
			stored := f.Get(job.ID)
			switch {
			case job.ExpiresAfterMS != nil:
				if want := row.CreatedAt.Add(90 * time.Second); row.Deadline == nil || !row.Deadline.Equal(want) || !stored.Deadline.Equal(want) {
					t.Errorf("%s, job %d: deadline %v, stored %v, want %v", name, i, row.Deadline, stored.Deadline, want)
				}
			case job.Deadline != nil:
				if !row.Deadline.Equal(deadline) || !stored.Deadline.Equal(deadline) {
					t.Errorf("%s, job %d: deadline %v, stored %v, want %v", name, i, row.Deadline, stored.Deadline, deadline)
				}
			case row.Deadline != nil || stored.Deadline != nil:
				t.Errorf("%s, job %d: a deadline %v, %v", name, i, row.Deadline, stored.Deadline)
			}
		}
	}
}

func TestRefusalLeavesNoKeyBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	refused := f.TrySubmit(f.Single(celltest.Keyed("k", "a"), func(j *submit.NewJob) { j.Deadline = &past }))[0]
	if refused.Problem == nil || refused.Problem.Code != problem.InvalidRequest || refused.Problem.Errors[0].Field != "deadline" {
		t.Fatalf("%+v", refused)
	}
	if f.Count("jobs") != 0 || f.Count("idempotency_keys") != 0 {
		t.Fatal("something was stored")
	}
	if retried := f.TrySubmit(f.Single(celltest.Keyed("k", "b")))[0]; retried.Accepted != 1 {
		t.Fatalf("the key was burnt: %+v", retried)
	}
}

func TestKeyInFlightEndsInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.Direct.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(background(t)) }()
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, f.Store.LockKey(store.LockSubmit, f.Tenant)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = f.Store.Submits.Submit(ctx, []submit.Submission{f.Single(celltest.Keyed("k", "a"))})
	if !errors.Is(err, submit.ErrIdempotencyInFlight) {
		t.Fatalf("%v, want in flight", err)
	}
	if answer := f.TrySubmit(f.Single(nil))[0]; answer.Accepted != 1 {
		t.Fatalf("a submit without a key waited too: %+v", answer)
	}
}

func TestBatchAnswersItemByItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	batch := submit.Submission{
		Tenant: f.Tenant, Batch: true, Idempotency: celltest.Keyed("k", "a"),
		Jobs: []submit.NewJob{
			f.Job(), f.Job(func(j *submit.NewJob) { j.Deadline = &past }), f.Job(),
			f.Job(func(j *submit.NewJob) { j.Delay = time.Hour }),
		},
		Refused: []*problem.Problem{nil, nil, problem.New(problem.InvalidRequest, "bad"), nil},
	}
	answer := f.TrySubmit(batch)[0]
	got := decode[api.BatchResponse](f, answer.Saved.Body)
	if got.Accepted != 2 || got.Rejected != 2 || answer.Saved.Status != 200 || !answer.Scheduled || len(answer.Ready) != 1 {
		t.Fatalf("%+v %s", answer, answer.Saved.Body)
	}
	for i, want := range []int{202, 400, 400, 202} {
		r := got.Results[i]
		if r.Index != i || r.Status != want || (r.Job == nil) == (want == 202) || (r.Problem == nil) == (want == 400) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if again := f.TrySubmit(batch)[0]; !again.Replayed || string(again.Saved.Body) != string(answer.Saved.Body) {
		t.Errorf("the replay differs: %+v", again)
	}
	if f.Count("jobs") != 2 {
		t.Errorf("%d jobs", f.Count("jobs"))
	}
}

func TestAtomicBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	late := submit.Submission{
		Tenant: f.Tenant, Batch: true, Atomic: true,
		Jobs: []submit.NewJob{f.Job(), f.Job(func(j *submit.NewJob) { j.Deadline = &past })},
	}
	bad := submit.Submission{
		Tenant: f.Tenant, Batch: true, Atomic: true, Jobs: []submit.NewJob{f.Job(), f.Job()},
		Refused: []*problem.Problem{nil, problem.New(problem.InvalidRequest, "bad")},
	}
	good := submit.Submission{Tenant: f.Tenant, Batch: true, Atomic: true, Jobs: []submit.NewJob{f.Job(), f.Job()}}
	answers := f.TrySubmit(late, bad, good)
	if answers[0].Problem == nil || answers[1].Problem == nil || answers[2].Accepted != 2 {
		t.Fatalf("%+v", answers)
	}
	if f.Count("jobs") != 2 {
		t.Fatalf("%d jobs, want the good batch's 2", f.Count("jobs"))
	}
}

func TestDedupeKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := "order-7"
	with := func(j *submit.NewJob) { j.DedupeKey = &key }
	first := f.TrySubmit(f.Single(nil, with))[0]
	second := f.TrySubmit(f.Single(nil, with), f.Single(nil))[0]
	response := celltest.ResponseTo(&second)
	got := decode[api.SubmitResponse](f, response.Body)
	if response.Status != 200 || !got.Deduplicated || got.ID != decode[api.SubmitResponse](f, celltest.ResponseTo(&first).Body).ID {
		t.Fatalf("%d %s", response.Status, response.Body)
	}
	bob := "bob"
	if other := f.TrySubmit(f.Single(nil, with, func(j *submit.NewJob) { j.User = &bob }))[0]; other.Accepted != 1 {
		t.Errorf("another user's job stood in the way: %+v", other)
	}
	inOne := f.TrySubmit(submit.Submission{Tenant: f.NewTenant(), Batch: true, Jobs: []submit.NewJob{f.Job(with), f.Job(with)}})[0]
	if inOne.Accepted != 1 {
		t.Errorf("twice in one batch: %+v", inOne)
	}
	for f.Count("jobs WHERE state = 'queued'") > 0 {
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
	}
	if fresh := f.TrySubmit(f.Single(nil, with))[0]; fresh.Accepted != 1 {
		t.Errorf("an ended job stood in the way: %+v", fresh)
	}
}

// The key's holder ends while others submit with the same key: nobody is left
// without an answer, and there is never a second live job.
func TestDedupeUnderConcurrency(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := "k"
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 25 {
				submission := f.Single(nil, func(j *submit.NewJob) { j.DedupeKey = &key })
				if _, err := f.Store.Submits.Submit(t.Context(), []submit.Submission{submission}); err != nil {
					t.Error(err)
				}
				for _, c := range f.Claim(1, time.Minute) {
					if ended := f.End(jobs.Ending{Lease: c.Lease(), Kind: api.KindComplete}); ended.Err != nil {
						t.Error(ended.Err)
					}
				}
			}
		})
	}
	group.Wait()
	if f.Count("jobs") > 1 {
		t.Fatalf("%d live jobs with one key", f.Count("jobs"))
	}
}

func TestScheduledTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	future, past := time.Now().Add(time.Hour).Truncate(time.Microsecond), time.Now().Add(-time.Hour)
	at := f.Submit(
		f.Job(func(j *submit.NewJob) { j.RunAt = &future }),
		f.Job(func(j *submit.NewJob) { j.RunAt = &past }),
		f.Job(func(j *submit.NewJob) { j.Delay = time.Minute }),
	)
	if got := f.Get(at[0]); got.State != api.StateScheduled || !got.RunAt.Equal(future) {
		t.Errorf("run_at: %+v", got.JobSummary)
	}
	if got := f.Get(at[1]); got.State != api.StateQueued || !got.RunAt.Equal(got.CreatedAt.Time) {
		t.Errorf("a past run_at is now: %+v", got.JobSummary)
	}
	if got := f.Get(at[2]); got.State != api.StateScheduled || got.RunAt.Sub(got.CreatedAt.Time) != time.Minute {
		t.Errorf("delay: %+v", got.JobSummary)
	}
	due, waiting, err := f.Store.Jobs.NextDue(t.Context(), jobs.AllTime)
	if err != nil || !waiting || due > time.Minute || due < 50*time.Second {
		t.Errorf("next due in %v, %v, %v", due, waiting, err)
	}
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gpu := f.NewLane(f.Tenant, "default", "gpu")
	var want []uuid.UUID
	for _, priority := range []int{9, 5, 5, 0} {
		want = append(want, f.Submit(f.Job(func(j *submit.NewJob) { j.Priority = priority }))...)
	}
	high := f.Submit(f.Job(func(j *submit.NewJob) { j.Priority, j.Lane, j.Tags = 9, gpu.ID, []string{"gpu", "NULL"} }))[0]
	for i := range want {
		if got := f.ClaimOne(); got.ID != want[i] {
			t.Errorf("claim %d took priority %d", i, got.Priority)
		}
	}
	if got := f.Claim(5, time.Second, f.Lane, gpu); len(got) != 1 || got[0].ID != high || fmt.Sprint(got[0].Tags) != "[gpu NULL]" {
		t.Errorf("the other lane: %+v", got)
	}
}

// Many claimers at once: every job is leased once, and no claim gets more than it asked for.
func TestConcurrentClaimsNeverShare(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jobs := make([]submit.NewJob, 300)
	for i := range jobs {
		jobs[i] = f.Job(func(j *submit.NewJob) { j.Priority = i % 10 })
	}
	f.Submit(jobs...)
	var mu sync.Mutex
	claimed := map[uuid.UUID]int{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for {
				got := f.Claim(7, time.Minute)
				if len(got) == 0 {
					return
				}
				if len(got) > 7 {
					t.Errorf("%d jobs for 7", len(got))
				}
				mu.Lock()
				for _, c := range got {
					claimed[c.ID]++
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for id, times := range claimed {
		if times != 1 {
			t.Errorf("job %s was claimed %d times", id, times)
		}
	}
	if left := f.Count("jobs WHERE state = 'queued'"); len(claimed)+left != 300 || left > 0 {
		t.Errorf("%d claimed, %d left", len(claimed), left)
	}
}
