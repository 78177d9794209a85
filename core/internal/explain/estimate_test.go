package explain_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// drain claims one job at a time until it is known how fast a job's line moves.
func (f *fixture) drain(id uuid.UUID) api.Explanation {
	f.Helper()
	var made api.Explanation
	celltest.Eventually(f.T, "an estimate", func() bool {
		f.Take(1)
		var err error
		if made, err = f.D.Explain(f.Context(), f.Tenant, "", id, false); err != nil {
			f.Fatal(err)
		}
		return made.Estimate != nil
	})
	return made
}

// backlog submits many jobs like one.
func (f *fixture) backlog(n int, like api.SubmitRequest) []uuid.UUID {
	f.Helper()
	jobs := make([]api.SubmitRequest, n)
	for i := range jobs {
		jobs[i] = like
	}
	call := f.Call(jobs...)
	f.Accepted(f.D.Submit(f.Context(), []submits.Call{call})...)
	return call.IDs
}

// near says that an estimate is of so many jobs ahead.
func near(estimate *api.Estimate, ahead int64) bool {
	if estimate == nil {
		return false
	}
	return math.Abs(float64(estimate.StartsInMS)/(1000*float64(ahead+1)/estimate.DrainPerSecond)-1) < 0.02
}

// The line of a job has those of its own lane before it, and of the other types that share its workers: those of a higher
// priority, and of the same one as many as take turns with it.
func TestEstimateOfALine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	jobs := f.backlog(2000, enginetest.Plain())
	last := jobs[len(jobs)-1]
	f.why(last, "in_line")
	if made := f.why(last, "in_line"); made.Estimate != nil {
		t.Errorf("an estimate before anything has started: %+v", made.Estimate)
	}
	made := f.drain(last)
	if !near(made.Estimate, made.Ahead.Count) {
		t.Errorf("%+v with %d ahead", made.Estimate, made.Ahead.Count)
	}

	other := api.SubmitRequest{Type: "other"}
	second := f.backlog(20, other)[19] // 20 of the first type take turns with it
	if made := f.why(second, "in_line"); !near(made.Estimate, 39) || made.Ahead.Count != 19 {
		t.Errorf("%+v with %d ahead of its own type", made.Estimate, made.Ahead.Count)
	}
	other.Priority = new(9)
	f.backlog(30, other)
	if made := f.why(second, "in_line"); !near(made.Estimate, 69) || made.Ahead.Count != 49 {
		t.Errorf("%+v with %d ahead of its own type", made.Estimate, made.Ahead.Count)
	}
	if made := f.why(last, "in_line"); !near(made.Estimate, made.Ahead.Count+50) {
		t.Errorf("%+v with %d ahead of its own type, and 50 of the other", made.Estimate, made.Ahead.Count)
	}
	// A limit of its own type: the other ones' pace says nothing.
	f.Put("default", api.QueueRequest{Types: api.TypeLimits{"other": {MaxRunning: new(int64(5))}}})
	if made := f.why(second, "in_line"); made.Estimate != nil {
		t.Errorf("%+v though nothing of its type has started", made.Estimate)
	}
	f.Put("default", api.QueueRequest{})

	later := f.Submit(api.SubmitRequest{Type: "test", DelayMS: new(int64(3_600_000))})[0]
	if made := f.why(later, "time"); made.Estimate == nil || made.Estimate.StartsInMS < 3_000_000 || made.Estimate.StartsInMS > 3_600_000 {
		t.Errorf("scheduled in an hour: %+v", made.Estimate)
	}
	shown, err := f.D.Queue(t.Context(), f.Tenant, "default")
	if err != nil || shown.DrainPerSecond == nil || shown.WaitMS == nil || *shown.WaitMS < 100 {
		t.Errorf("%+v, %v", shown, err)
	}
	f.pause("default", true)
	f.why(later, "time", "paused")
	for _, id := range []uuid.UUID{last, later} {
		if made, err := f.D.Explain(t.Context(), f.Tenant, "", id, false); err != nil || made.Estimate != nil {
			t.Errorf("paused: %+v, %v", made.Estimate, err)
		}
	}
	if shown, err := f.D.Queue(t.Context(), f.Tenant, "default"); err != nil || shown.WaitMS != nil {
		t.Errorf("paused: %+v, %v", shown, err)
	}
}

// A core that starts no jobs estimates by what the others report.
func TestEstimateOfAnotherCoresDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	last := f.backlog(3000, enginetest.Plain())[2999]
	f.Run()
	own := f.drain(last)
	other := f.NewCore(f.Store)
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the other core to know it", func() bool {
		f.Take(1)
		if made, err := other.Explain(t.Context(), f.Tenant, "", last, false); err != nil || made.Estimate == nil {
			return false
		}
		return true
	})
	if own.Estimate.DrainPerSecond <= 0 {
		t.Errorf("%+v", own.Estimate)
	}
}

// A job that may not wait for as long as its line is refused, and leaves nothing behind.
func TestWouldWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	impatient := api.SubmitRequest{Type: "test", MaxWaitMS: new(int64(1))}
	if answer := f.D.Submit(t.Context(), []submits.Call{f.Call(impatient)})[0]; answer.Problem != nil || answer.Accepted != 1 {
		t.Fatalf("refused though nothing is known: %+v", answer.Problem)
	}
	jobs := f.backlog(2000, enginetest.Plain())
	f.drain(jobs[1999])
	keyed := f.Call(enginetest.Plain())
	keyed.Idempotency = &submit.Idempotency{Operation: "submit", Key: "k"}
	first := f.D.Submit(t.Context(), []submits.Call{keyed})[0]
	if first.Err != nil || first.Accepted != 1 {
		t.Fatalf("%+v", first)
	}
	alike := enginetest.Plain()
	alike.DedupeKey = new("one")
	f.Submit(alike)
	stored := f.Count(`SELECT count(*) FROM jobs`)
	celltest.Eventually(t, "what was known before to be too old", func() bool {
		answer := f.D.Submit(t.Context(), []submits.Call{f.Call(impatient)})[0]
		stored += answer.Accepted
		return answer.Problem != nil
	})
	check := func(p *problem.Problem) {
		t.Helper()
		if p == nil || p.Code != problem.WouldWait || p.Status != 429 || p.RetryAfterMS == nil || len(p.Policies) != 1 ||
			p.Policies[0].Name != "wait" || p.Policies[0].Limit != 1 || p.Policies[0].Current <= 1 {
			t.Errorf("%+v", p)
		}
	}
	refused := f.Call(impatient)
	refused.Idempotency = &submit.Idempotency{Operation: "submit", Key: "refused"}
	check(f.D.Submit(t.Context(), []submits.Call{refused})[0].Problem)
	if keys := f.Count(`SELECT count(*) FROM idempotency_keys WHERE key = 'refused'`); keys != 0 {
		t.Error("a refused job has used its key")
	}
	// What was accepted with the key is answered again.
	keyed.Jobs[0].MaxWaitMS = new(int64(1))
	if again := f.D.Submit(t.Context(), []submits.Call{keyed})[0]; !again.Replayed || again.Problem != nil {
		t.Errorf("%+v", again)
	}
	alike.MaxWaitMS = new(int64(1))
	if answer := f.D.Submit(t.Context(), []submits.Call{f.Call(alike)})[0]; answer.Problem != nil || len(answer.Jobs) != 1 || !answer.Jobs[0].Deduplicated {
		t.Errorf("a live job has its dedupe_key: %+v, %+v", answer.Problem, answer.Jobs)
	}
	alike.DedupeKey = new("another")
	check(f.D.Submit(t.Context(), []submits.Call{f.Call(alike)})[0].Problem)
	patient, ahead := impatient, impatient
	patient.MaxWaitMS, ahead.Priority = new(int64(3_600_000)), new(9)
	later := impatient
	later.DelayMS = new(int64(60_000))
	mixed := f.Call(impatient, patient, ahead, later)
	answer := f.D.Submit(t.Context(), []submits.Call{mixed})[0]
	if answer.Err != nil || answer.Accepted != 3 || len(answer.Jobs) != 4 {
		t.Fatalf("%+v", answer)
	}
	check(answer.Jobs[0].Refused)
	stored += 3
	atomic := f.Call(patient, impatient)
	atomic.Atomic = true
	check(f.D.Submit(t.Context(), []submits.Call{atomic})[0].Problem)
	if now := f.Count(`SELECT count(*) FROM jobs`); now != stored {
		t.Errorf("%d jobs are stored, want %d", now, stored)
	}
	shared := f.Call(impatient)
	shared.Jobs[0].Priority, shared.Shared = new(3), true
	if answer := f.D.Submit(t.Context(), []submits.Call{shared})[0]; !answer.RetryUnbatched {
		t.Errorf("a shared call has asked PostgreSQL: %+v", answer)
	}
}

// A refusal for a full cap says when there is likely to be room: to each caller a later time.
func TestRoomByDrain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	last := f.backlog(2000, enginetest.Request("ada"))[1999]
	f.Override(api.Overrides{Limits: api.Limits{MaxActive: new(int64(10)), UserMaxActive: new(int64(5))}})
	f.Put("default", api.QueueRequest{MaxActive: new(int64(10))})
	refusal := func(request api.SubmitRequest) *problem.Problem {
		t.Helper()
		answer := f.D.Submit(t.Context(), []submits.Call{f.Call(request)})[0]
		if answer.Problem == nil {
			t.Fatalf("%+v", answer)
		}
		return answer.Problem
	}
	if p := refusal(enginetest.Plain()); *p.RetryAfterMS < 1000 || *p.RetryAfterMS >= 2000 || p.Policies[0].RetryAfterMS != nil {
		t.Errorf("with no known rate: %+v", p)
	}
	f.drain(last)
	var before int64
	for range 50 {
		p := refusal(enginetest.Request("ada"))
		if len(p.Policies) != 3 || *p.RetryAfterMS > 15_000 {
			t.Fatalf("%+v", p)
		}
		for _, policy := range p.Policies {
			if policy.RetryAfterMS == nil || *policy.RetryAfterMS > *p.RetryAfterMS {
				t.Fatalf("%+v", policy)
			}
		}
		before = *p.RetryAfterMS
	}
	if before <= 100 {
		t.Errorf("the 50th waits for %d ms", before)
	}
}

// A key that is bound to a user learns nothing of others but counts.
func TestWhyNamesNoOtherUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	f.backlog(2000, enginetest.Request("secret-bob"))
	mine := f.backlog(2000, enginetest.Request("ada"))[1999]
	f.drain(mine)
	f.Override(api.Overrides{Limits: api.Limits{MaxRunning: new(int64(1)), UserMaxRunning: new(int64(10))}, Users: map[string]api.Limits{"secret-bob": {UserMaxRunning: new(int64(1))}}})
	made, err := f.D.Explain(t.Context(), f.Tenant, "ada", mine, false)
	if err != nil || made.State != api.StateQueued {
		t.Fatalf("%+v, %v", made, err)
	}
	text, err := json.Marshal(made)
	if err != nil || strings.Contains(string(text), "bob") {
		t.Errorf("%s, %v", text, err)
	}
}

// Behind a breaker that is open or half-open nobody knows when a job starts: neither its queue, nor the reason why it
// waits, nor a submit estimates it.
func TestNoEstimateBehindABreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Take(1)
	last := f.backlog(2000, enginetest.Plain())[1999]
	f.drain(last)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "default", api.QueueRequest{Push: &api.PushRequest{URL: "https://example.com"}}); err != nil {
		t.Fatal(err)
	}
	f.Refresh()
	breaker := api.Breaker{State: api.BreakerClosed}
	f.D.ShowBreakers(func(tenant.QueueKey) *api.Breaker { return &breaker })
	impatient := api.SubmitRequest{Type: "test", MaxWaitMS: new(int64(1))}
	for _, state := range []string{api.BreakerClosed, api.BreakerOpen, api.BreakerHalfOpen} {
		breaker.State = state
		known := state == api.BreakerClosed
		shown, err := f.D.Queue(t.Context(), f.Tenant, "default")
		if err != nil || (shown.WaitMS != nil) != known {
			t.Errorf("%s: the queue's wait is %v (%v)", state, shown.WaitMS, err)
		}
		because := "breaker"
		if known {
			because = "in_line"
		}
		if made := f.why(last, because); (made.Estimate != nil) != known {
			t.Errorf("%s: the job's estimate is %+v", state, made.Estimate)
		}
		answer := f.D.Submit(t.Context(), []submits.Call{f.Call(impatient)})[0]
		if refused := answer.Problem != nil || answer.Accepted == 0; answer.Err != nil || refused != known {
			t.Errorf("%s: a job that may wait for a millisecond: %+v, %v", state, answer.Problem, answer.Err)
		}
	}
}
