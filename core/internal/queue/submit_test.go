package queue_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func keyed(key, body string) *queue.Idempotency {
	return &queue.Idempotency{Operation: "submit", Key: key, Fingerprint: sha256.Sum256([]byte(body))}
}

func single(f *fixture, idempotency *queue.Idempotency, change ...func(*queue.NewJob)) queue.Submission {
	return queue.Submission{Tenant: f.tenant, Jobs: []queue.NewJob{f.job(change...)}, Idempotency: idempotency}
}

func TestIdempotentReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.trySubmit(single(f, keyed("k1", "a")))[0]
	if first.Problem != nil || first.Replayed || first.Status != 202 {
		t.Fatalf("first: %+v", first)
	}
	// The job may have moved on, or be gone: the answer stays what it was.
	f.mustEnd(queue.Ending{Lease: f.claimOne().Lease(), Kind: api.KindComplete})
	second := f.trySubmit(single(f, keyed("k1", "a")))[0]
	if !second.Replayed || second.Status != 202 || string(second.Body) != string(first.Body) || second.Accepted != 0 {
		t.Fatalf("replay: %+v\n%s\n%s", second, first.Body, second.Body)
	}
	if other := f.trySubmit(single(f, keyed("k1", "b")))[0]; other.Problem == nil || other.Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", other)
	}
	another := keyed("k1", "a")
	another.Operation = "submit_batch"
	if fresh := f.trySubmit(single(f, another))[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another operation: %+v", fresh)
	}
	bound := single(f, keyed("k1", "a"))
	bound.User = "bob"
	if fresh := f.trySubmit(bound)[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another user: %+v", fresh)
	}
	stranger := single(f, keyed("k1", "a"))
	stranger.Tenant = f.newTenant()
	if fresh := f.trySubmit(stranger)[0]; fresh.Replayed || fresh.Accepted != 1 {
		t.Errorf("another tenant: %+v", fresh)
	}
	if f.count("jobs") != 3 || f.count("finished_jobs") != 1 {
		t.Errorf("%d live, %d finished", f.count("jobs"), f.count("finished_jobs"))
	}
}

func TestManyEqualSubmitsAtOnceAreOneJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const callers = 40
	answers := make([]queue.SubmitAnswer, callers)
	var group sync.WaitGroup
	for i := range callers {
		submission := single(f, keyed("k", "a"))
		group.Go(func() {
			got, err := f.store.Submit(t.Context(), []queue.Submission{submission})
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
		if string(a.Body) != string(answers[0].Body) {
			t.Fatalf("two answers differ:\n%s\n%s", a.Body, answers[0].Body)
		}
	}
	if first != 1 || f.count("jobs") != 1 || f.count("idempotency_keys") != 1 {
		t.Fatalf("%d first answers, %d jobs, %d keys", first, f.count("jobs"), f.count("idempotency_keys"))
	}
}

func TestOneKeyTwiceInOneFlush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	answers := f.trySubmit(single(f, keyed("k", "a")), single(f, nil), single(f, keyed("k", "a")), single(f, keyed("k", "b")))
	if answers[0].Replayed || answers[1].Replayed || !answers[2].Replayed || string(answers[2].Body) != string(answers[0].Body) {
		t.Errorf("%+v", answers)
	}
	if answers[3].Problem == nil || answers[3].Problem.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %+v", answers[3])
	}
	if f.count("jobs") != 2 {
		t.Errorf("%d jobs, want 2", f.count("jobs"))
	}
}

func TestRefusalLeavesNoKeyBehind(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	refused := f.trySubmit(single(f, keyed("k", "a"), func(j *queue.NewJob) { j.Deadline = &past }))[0]
	if refused.Problem == nil || refused.Problem.Code != problem.InvalidRequest || refused.Problem.Errors[0].Field != "deadline" {
		t.Fatalf("%+v", refused)
	}
	if f.count("jobs") != 0 || f.count("idempotency_keys") != 0 {
		t.Fatal("something was stored")
	}
	if retried := f.trySubmit(single(f, keyed("k", "b")))[0]; retried.Accepted != 1 {
		t.Fatalf("the key was burnt: %+v", retried)
	}
}

func TestKeyInFlightEndsInTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tx, err := f.behind.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(background(t)) }()
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, queue.SubmitLockKey(f.tenant)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err = f.store.Submit(ctx, []queue.Submission{single(f, keyed("k", "a"))})
	if !errors.Is(err, queue.ErrIdempotencyInFlight) {
		t.Fatalf("%v, want in flight", err)
	}
	if answer := f.trySubmit(single(f, nil))[0]; answer.Accepted != 1 {
		t.Fatalf("a submit without a key waited too: %+v", answer)
	}
}

func TestBatchAnswersItemByItem(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	batch := queue.Submission{
		Tenant: f.tenant, Batch: true, Idempotency: keyed("k", "a"),
		Jobs: []queue.NewJob{
			f.job(), f.job(func(j *queue.NewJob) { j.Deadline = &past }), f.job(),
			f.job(func(j *queue.NewJob) { j.Delay = time.Hour }),
		},
		Refused: []*problem.Problem{nil, nil, problem.New(problem.InvalidRequest, "bad"), nil},
	}
	answer := f.trySubmit(batch)[0]
	got := decode[api.BatchResponse](f, answer.Body)
	if got.Accepted != 2 || got.Rejected != 2 || answer.Status != 200 || !answer.Scheduled || len(answer.Ready) != 1 {
		t.Fatalf("%+v %s", answer, answer.Body)
	}
	for i, want := range []int{202, 400, 400, 202} {
		r := got.Results[i]
		if r.Index != i || r.Status != want || (r.Job == nil) == (want == 202) || (r.Problem == nil) == (want == 400) {
			t.Errorf("result %d: %+v", i, r)
		}
	}
	if again := f.trySubmit(batch)[0]; !again.Replayed || string(again.Body) != string(answer.Body) {
		t.Errorf("the replay differs: %s", again.Body)
	}
	if f.count("jobs") != 2 {
		t.Errorf("%d jobs", f.count("jobs"))
	}
}

func TestAtomicBatchIsAllOrNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	past := time.Now().Add(-time.Hour)
	late := queue.Submission{
		Tenant: f.tenant, Batch: true, Atomic: true,
		Jobs: []queue.NewJob{f.job(), f.job(func(j *queue.NewJob) { j.Deadline = &past })},
	}
	bad := queue.Submission{
		Tenant: f.tenant, Batch: true, Atomic: true, Jobs: []queue.NewJob{f.job(), f.job()},
		Refused: []*problem.Problem{nil, problem.New(problem.InvalidRequest, "bad")},
	}
	good := queue.Submission{Tenant: f.tenant, Batch: true, Atomic: true, Jobs: []queue.NewJob{f.job(), f.job()}}
	answers := f.trySubmit(late, bad, good)
	if answers[0].Problem == nil || answers[1].Problem == nil || answers[2].Accepted != 2 {
		t.Fatalf("%+v", answers)
	}
	if f.count("jobs") != 2 {
		t.Fatalf("%d jobs, want the good batch's 2", f.count("jobs"))
	}
}

func TestDedupeKey(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := "order-7"
	with := func(j *queue.NewJob) { j.DedupeKey = &key }
	first := f.trySubmit(single(f, nil, with))[0]
	second := f.trySubmit(single(f, nil, with), single(f, nil))[0]
	got := decode[api.SubmitResponse](f, second.Body)
	if second.Status != 200 || !got.Deduplicated || got.ID != decode[api.SubmitResponse](f, first.Body).ID {
		t.Fatalf("%d %s", second.Status, second.Body)
	}
	bob := "bob"
	if other := f.trySubmit(single(f, nil, with, func(j *queue.NewJob) { j.User = &bob }))[0]; other.Accepted != 1 {
		t.Errorf("another user's job stood in the way: %s", other.Body)
	}
	inOne := f.trySubmit(queue.Submission{Tenant: f.newTenant(), Batch: true, Jobs: []queue.NewJob{f.job(with), f.job(with)}})[0]
	if inOne.Accepted != 1 {
		t.Errorf("twice in one batch: %s", inOne.Body)
	}
	for f.count("jobs WHERE state = 'queued'") > 0 {
		f.mustEnd(queue.Ending{Lease: f.claimOne().Lease(), Kind: api.KindComplete})
	}
	if fresh := f.trySubmit(single(f, nil, with))[0]; fresh.Accepted != 1 {
		t.Errorf("an ended job stood in the way: %s", fresh.Body)
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
				submission := single(f, nil, func(j *queue.NewJob) { j.DedupeKey = &key })
				if _, err := f.store.Submit(t.Context(), []queue.Submission{submission}); err != nil {
					t.Error(err)
				}
				for _, c := range f.claim(1, time.Minute) {
					if ended := f.end(queue.Ending{Lease: c.Lease(), Kind: api.KindComplete}); ended.Err != nil {
						t.Error(ended.Err)
					}
				}
			}
		})
	}
	group.Wait()
	if f.count("jobs") > 1 {
		t.Fatalf("%d live jobs with one key", f.count("jobs"))
	}
}

func TestScheduledTimes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	future, past := time.Now().Add(time.Hour).Truncate(time.Microsecond), time.Now().Add(-time.Hour)
	at := f.submit(
		f.job(func(j *queue.NewJob) { j.RunAt = &future }),
		f.job(func(j *queue.NewJob) { j.RunAt = &past }),
		f.job(func(j *queue.NewJob) { j.Delay = time.Minute }),
	)
	if got := f.get(at[0]); got.State != api.StateScheduled || !got.RunAt.Equal(future) {
		t.Errorf("run_at: %+v", got.JobSummary)
	}
	if got := f.get(at[1]); got.State != api.StateQueued || !got.RunAt.Equal(got.CreatedAt.Time) {
		t.Errorf("a past run_at is now: %+v", got.JobSummary)
	}
	if got := f.get(at[2]); got.State != api.StateScheduled || got.RunAt.Sub(got.CreatedAt.Time) != time.Minute {
		t.Errorf("delay: %+v", got.JobSummary)
	}
	due, waiting, err := f.store.NextDue(t.Context(), queue.Ever)
	if err != nil || !waiting || due > time.Minute || due < 50*time.Second {
		t.Errorf("next due in %v, %v, %v", due, waiting, err)
	}
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gpu := f.newLane(f.tenant, "default", "gpu")
	var want []uuid.UUID
	for _, priority := range []int{9, 5, 5, 0} {
		want = append(want, f.submit(f.job(func(j *queue.NewJob) { j.Priority = priority }))...)
	}
	high := f.submit(f.job(func(j *queue.NewJob) { j.Priority, j.Lane, j.Tags = 9, gpu.ID, []string{"gpu", "NULL"} }))[0]
	for i := range want {
		if got := f.claimOne(); got.ID != want[i] {
			t.Errorf("claim %d took priority %d", i, got.Priority)
		}
	}
	if got := f.claim(5, time.Second, f.lane, gpu); len(got) != 1 || got[0].ID != high || fmt.Sprint(got[0].Tags) != "[gpu NULL]" {
		t.Errorf("the other lane: %+v", got)
	}
}

// Many claimers at once: every job is leased once, and no claim gets more than it asked for.
func TestConcurrentClaimsNeverShare(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jobs := make([]queue.NewJob, 300)
	for i := range jobs {
		jobs[i] = f.job(func(j *queue.NewJob) { j.Priority = i % 10 })
	}
	f.submit(jobs...)
	var mu sync.Mutex
	claimed := map[uuid.UUID]int{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for {
				got := f.claim(7, time.Minute)
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
	if left := f.count("jobs WHERE state = 'queued'"); len(claimed)+left != 300 || left > 0 {
		t.Errorf("%d claimed, %d left", len(claimed), left)
	}
}
