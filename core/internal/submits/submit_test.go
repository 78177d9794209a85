package submits_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestSubmitFillsInTheDefaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	job := f.Get(f.Submit(enginetest.Plain())[0])
	want := api.Retry{BaseMS: 5000, CapMS: 300_000, Jitter: 0.2, Curve: api.CurveExponential}
	if job.Queue != "default" || job.Priority != 5 || job.MaxAttempts != 3 || job.Retry != want || job.TimeoutMS != nil {
		t.Errorf("job = %+v", job.JobSummary)
	}
	if string(job.Payload) != "null" || len(job.Metadata) != 0 || job.Metadata == nil || job.Tags == nil {
		t.Errorf("payload %s, metadata %v, tags %v", job.Payload, job.Metadata, job.Tags)
	}
}

func TestSubmitTakesTheQueuesSettingsAndTheJobsOwn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.In("slow"))
	f.Refresh()
	f.Exec(`UPDATE queues SET max_attempts = 7, retry_base_ms = 100, retry_cap_ms = 900, retry_jitter = 0.5,
		visibility_timeout_ms = 5000, updated_at = statement_timestamp() WHERE name = 'slow'`)
	f.Refresh()

	job := f.Get(f.Submit(enginetest.In("slow"))[0])
	if want := (api.Retry{BaseMS: 100, CapMS: 900, Jitter: 0.5, Curve: api.CurveExponential}); job.Retry != want || job.MaxAttempts != 7 {
		t.Errorf("by the queue: %+v, %d attempts", job.Retry, job.MaxAttempts)
	}
	other := f.Get(f.Submit(enginetest.In("other"))[0])
	if other.MaxAttempts != 3 || other.Retry.BaseMS != 5000 {
		t.Errorf("another queue: %+v, %d attempts", other.Retry, other.MaxAttempts)
	}

	request := enginetest.In("slow")
	request.Retry = &api.RetryRequest{CapMS: new(int64(1234))}
	request.MaxAttempts, request.Priority, request.TimeoutMS = new(1), new(9), new(int64(777))
	own := f.Get(f.Submit(request)[0])
	if want := (api.Retry{BaseMS: 100, CapMS: 1234, Jitter: 0.5, Curve: api.CurveExponential}); own.Retry != want || own.MaxAttempts != 1 || own.Priority != 9 {
		t.Errorf("by the job: %+v, %d attempts, priority %d", own.Retry, own.MaxAttempts, own.Priority)
	}

	claimed := f.Claim(f.ClaimCall("slow"))
	if len(claimed) != 2 {
		t.Fatalf("claimed %d, want 2", len(claimed))
	}
	for _, c := range claimed {
		length := c.LeaseExpiresAt.Sub(c.StartedAt)
		want := 5 * time.Second
		if c.TimeoutMs != nil {
			want = 777 * time.Millisecond
		}
		if length != want {
			t.Errorf("the lease lasts %v, want %v", length, want)
		}
	}
}

func TestSubmitWarnsOfWhatKeepsAJobWaiting(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.In("paused"))
	f.Lane(enginetest.In("capped"))
	f.Exec(`UPDATE queues SET paused = true, updated_at = statement_timestamp() WHERE name = 'paused'`)
	f.Exec(`UPDATE queues SET max_running = 0, updated_at = statement_timestamp() WHERE name = 'capped'`)
	if _, err := f.D.Register(t.Context(), f.Tenant, api.WorkerRequest{WorkerID: "w", Queues: []string{"paused", "capped", "default"}}); err != nil {
		t.Fatal(err)
	}
	f.Refresh()
	platform := f.Call(enginetest.In("platforms"))
	if _, err := f.D.Register(t.Context(), tenant.Platform, api.WorkerRequest{WorkerID: "p", Queues: []string{"platforms"}}); err != nil {
		t.Fatal(err)
	}
	answers := f.D.Submit(t.Context(), []submits.Call{f.Call(enginetest.In("paused")), f.Call(enginetest.Plain()), f.Call(enginetest.In("capped")), f.Call(enginetest.In("nobody")), platform})
	f.Accepted(answers...)
	for i, want := range []string{"is paused", "", "max_running 0", "No worker has asked", ""} {
		got := answers[i].Warnings
		if (want == "") != (len(got) == 0) || len(got) > 1 || (len(got) == 1 && !strings.Contains(got[0], want)) {
			t.Errorf("%d: warnings %q, want one with %q", i, got, want)
		}
	}
}

func TestTooManyLanesRefuseTheJobNotTheBatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Exec(`INSERT INTO lanes (tenant_id, queue, type, tags, created_at)
		SELECT $1, 'full', 'test', ARRAY['t' || n], statement_timestamp() FROM generate_series(1, $2::integer) AS n`, f.Tenant, lanes.Max-1)
	f.Lane(enginetest.Plain()) // the last one; which of several new ones would get it is open
	batch := f.Call(enginetest.Plain(), enginetest.Tagged("new"), enginetest.Plain())
	single, neighbour := f.Call(enginetest.Tagged("newer")), f.Call(enginetest.Plain())
	neighbour.Tenant = f.NewTenant()
	atomic := f.Call(enginetest.Plain(), enginetest.Tagged("newest"))
	atomic.Atomic = true
	answers := f.D.Submit(t.Context(), []submits.Call{batch, single, neighbour, atomic})

	f.Accepted(answers[0], answers[2])
	got := enginetest.Decode[api.BatchResponse](f.Fixture, celltest.ResponseTo(&answers[0].Answer).Body)
	if got.Accepted != 2 || got.Rejected != 1 || got.Results[1].Problem == nil || got.Results[1].Problem.Code != problem.TooManyLanes ||
		got.Results[1].Status != 422 {
		t.Errorf("batch = %+v", got)
	}
	for _, i := range []int{1, 3} {
		if p := answers[i].Problem; p == nil || p.Code != problem.TooManyLanes {
			t.Errorf("answer %d: %v, %v", i, p, answers[i].Err)
		}
	}
	if n := f.Count(`SELECT count(*) FROM jobs`); n != 3 {
		t.Errorf("%d jobs are stored, want 3", n)
	}
}

// PostgreSQL refuses a text that is not UTF-8. The gateway would have as well.
func TestABadSubmissionFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	bad := enginetest.Plain()
	bad.Payload = json.RawMessage("\"\xff\"")
	calls := []submits.Call{f.Call(enginetest.Plain()), f.Call(bad), f.Call(enginetest.Plain(), enginetest.Plain())}
	answers := f.D.Submit(t.Context(), calls)
	f.Accepted(answers[0], answers[2])
	if answers[1].Err == nil || errors.Is(answers[1].Err, store.ErrOutcomeUnknown) {
		t.Errorf("the bad one: %v", answers[1].Err)
	}
	if n := f.Count(`SELECT count(*) FROM jobs`); n != 3 {
		t.Errorf("%d jobs are stored, want 3", n)
	}
	if claimed := f.Claim(f.ClaimCall()); len(claimed) != 3 {
		t.Errorf("claimed %d, want 3", len(claimed))
	}
}

// A gateway that repeats a job id gets no second job, and does not affect others.
func TestARepeatedJobIDFailsAlone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first := f.Submit(enginetest.Plain())
	again, good := f.Call(enginetest.Plain()), f.Call(enginetest.Plain())
	again.IDs = first
	answers := f.D.Submit(t.Context(), []submits.Call{again, good})
	f.Accepted(answers[1])
	if answers[0].Err == nil && answers[0].Problem == nil {
		t.Errorf("a repeated id was accepted: %+v", answers[0].Answer)
	}
	if len(f.Claim(f.ClaimCall())) != 2 {
		t.Error("want two jobs")
	}
}

func TestKeyedSubmissionsInOneFlush(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key := func(body byte) *submit.Idempotency {
		return &submit.Idempotency{Operation: "submit", Key: "k", Fingerprint: [32]byte{body}}
	}
	first, same, other, plainCall := f.Call(enginetest.Plain()), f.Call(enginetest.Plain()), f.Call(enginetest.Plain()), f.Call(enginetest.Plain())
	first.Idempotency, same.Idempotency, other.Idempotency = key(1), key(1), key(2)
	answers := f.D.Submit(t.Context(), []submits.Call{first, same, other, plainCall})
	f.Accepted(answers[0], answers[1], answers[3])
	if !answers[1].Replayed || string(answers[1].Saved.Body) != string(answers[0].Saved.Body) {
		t.Errorf("the same body: replayed %v, %s", answers[1].Replayed, answers[1].Saved.Body)
	}
	if p := answers[2].Problem; p == nil || p.Code != problem.IdempotencyMismatch {
		t.Errorf("another body: %v", p)
	}
	if n := f.Count(`SELECT count(*) FROM jobs`); n != 2 {
		t.Errorf("%d jobs are stored, want 2", n)
	}
}

func TestSubmitNotifiesOtherCoresAndThePromoter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	later := enginetest.Plain()
	later.DelayMS = new(int64(60_000))
	f.Submit(enginetest.Plain(), enginetest.Plain(), later)
	if published := f.Published(); len(published) != 2 || len(f.D.Scheduled) != 1 {
		t.Errorf("published %v, scheduled %d", published, len(f.D.Scheduled))
	}
	replayed := f.Call(enginetest.Plain())
	replayed.Idempotency = &submit.Idempotency{Operation: "submit", Key: "k"}
	for range 2 {
		f.Accepted(f.D.Submit(t.Context(), []submits.Call{replayed})...)
	}
	if published := f.Published(); len(published) != 1 {
		t.Errorf("published %d times, want once for the keyed job: a replay wakes no claim", len(published))
	}
}
