package jobs_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// report sends one report with a progress in percent and a checkpoint, and says whether the lease was held.
func (f *fixture) report(lease job.Lease, percent float64, checkpoint string) bool {
	f.Helper()
	one := jobs.Report{Lease: lease, Checkpoint: []byte(checkpoint)}
	if percent >= 0 {
		one.Progress = &api.Progress{Percent: &percent}
	}
	if checkpoint == "" {
		one.Checkpoint = nil
	}
	beats, err := f.Store.Jobs.Report(f.Context(), []jobs.Report{one})
	if err != nil {
		f.Fatal(err)
	}
	_, held := beats[lease]
	return held
}

// shows is a job's progress in percent and its checkpoint, "-" for none.
func (f *fixture) shows(id uuid.UUID) string {
	f.Helper()
	got, percent := f.Get(id), "-"
	if got.Progress != nil && got.Progress.Percent != nil {
		percent = fmt.Sprint(*got.Progress.Percent)
	}
	if got.Checkpoint == nil {
		return percent + " -"
	}
	return percent + " " + string(got.Checkpoint)
}

func (f *fixture) wantShown(when string, id uuid.UUID, want string) {
	f.Helper()
	if got := f.shows(id); got != want {
		f.Errorf("%s: %s, want %s", when, got, want)
	}
}

// A checkpoint outlives each way in which an attempt can end; progress begins again with the next attempt.
func TestCheckpointIsHandedToTheNextAttempt(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts = 4 }))[0]
	again := func(when string) claim.Job {
		t.Helper()
		f.Exec(`UPDATE jobs SET state = 'queued', ready_at = statement_timestamp() WHERE state = 'scheduled'`)
		c := f.ClaimOne()
		if string(c.Checkpoint) != `{"n": 1}` || string(c.Wire().Checkpoint) != `{"n": 1}` {
			t.Fatalf("%s the next attempt gets the checkpoint %q", when, c.Checkpoint)
		}
		f.wantShown(when+", at the start of the next attempt", id, `- {"n": 1}`)
		return c
	}
	c := f.ClaimOne()
	if c.Checkpoint != nil || string(c.Wire().Checkpoint) != "" {
		t.Fatalf("the first attempt gets %q", c.Checkpoint)
	}
	f.wantShown("before any report", id, "- -")
	if !f.report(c.Lease(), 30, `{"n": 1}`) {
		t.Fatal("the lease is lost")
	}
	f.wantShown("reported", id, `30 {"n": 1}`)
	f.report(c.Lease(), 40, "")
	f.wantShown("a progress alone", id, `40 {"n": 1}`)
	f.report(c.Lease(), -1, "")
	f.wantShown("a plain heartbeat", id, `40 {"n": 1}`)
	for _, ending := range []jobs.Ending{
		{Kind: api.KindSnooze, Delay: time.Second}, {Kind: api.KindRelease}, {Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}},
	} {
		ending.Lease = c.Lease()
		f.MustEnd(ending)
		c = again("after " + ending.Kind)
	}
	f.report(c.Lease(), 50, "")
	f.Expire(id)
	f.Reap()
	c = again("after a lost lease")
	f.report(c.Lease(), 60, "")
	// The last attempt: it becomes a dead letter, and a redrive begins where it stopped.
	f.Exec(`UPDATE jobs SET attempt = max_attempts`)
	f.MustEnd(jobs.Ending{Lease: c.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}})
	f.wantShown("a dead letter", id, `60 {"n": 1}`)
	if redriven := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{id}, nil); redriven[0].Err != nil {
		t.Fatal(redriven[0].Err)
	}
	c = again("after a redrive")
	f.MustEnd(jobs.Ending{Lease: c.Lease(), Kind: api.KindComplete})
	f.wantShown("completed", id, `- {"n": 1}`)
}

// A holder whose lease was taken back stores nothing, also where its report comes with the new holder's, in either
// order. Of two reports of one lease in a flush the later counts, field by field.
func TestReportsAreFenced(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.Submit(f.Job())[0]
	stale := f.ClaimOne()
	f.report(stale.Lease(), 10, `"stale"`)
	f.Expire(id)
	f.Reap()
	if f.report(stale.Lease(), 20, `"lost"`) {
		t.Error("a stale lease is held")
	}
	f.wantShown("after the reaper", id, `10 "stale"`)
	fresh := f.ClaimOne()
	if f.report(stale.Lease(), 20, `"lost"`) {
		t.Error("a stale lease is held")
	}
	f.wantShown("claimed by another", id, `- "stale"`)
	other := f.Submit(f.Job())[0]
	beside := f.ClaimOne()
	eleven, twelve := 11.0, 12.0
	for i, reports := range [][]jobs.Report{
		{{Lease: stale.Lease(), Checkpoint: []byte(`"lost"`)}, {Lease: fresh.Lease(), Checkpoint: []byte(`0`)}, {Lease: beside.Lease()}},
		{{Lease: beside.Lease()}, {Lease: fresh.Lease(), Checkpoint: []byte(`1`)}, {Lease: stale.Lease(), Checkpoint: []byte(`"lost"`)}},
		{{Lease: fresh.Lease(), Progress: &api.Progress{Percent: &eleven}, Checkpoint: []byte(`"early"`)}, {Lease: fresh.Lease(), Checkpoint: []byte(`2`)}, {Lease: beside.Lease()}},
		{{Lease: fresh.Lease(), Checkpoint: []byte(`3`)}, {Lease: fresh.Lease(), Progress: &api.Progress{Percent: &twelve}}, {Lease: beside.Lease()}},
	} {
		beats, err := f.Store.Jobs.Report(t.Context(), reports)
		if _, held := beats[fresh.Lease()]; err != nil || !held || len(beats) != 2 {
			t.Errorf("%d: %v %v", i, beats, err)
		}
		f.wantShown(fmt.Sprint("flush ", i), id, [...]string{"- 0", "- 1", "11 2", "12 3"}[i])
	}
	f.wantShown("the job beside", other, "- -")
}

// What a checkpoint adds counts in the bytes of a claim's answer.
func TestCheckpointsCountInAClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(f.Jobs(3)...)
	found := f.Claim(3, time.Minute)
	large := `"` + strings.Repeat("x", 50_000) + `"`
	for _, c := range found {
		f.report(c.Lease(), -1, large)
		f.report(c.Lease(), -1, `"small"`)
		f.report(c.Lease(), -1, large)
		f.MustEnd(jobs.Ending{Lease: c.Lease(), Kind: api.KindRelease})
	}
	again := f.Claim(3, time.Minute)
	for _, c := range again {
		if size := c.Size(); string(c.Checkpoint) != large || size < 50_000 || size > 53_000 {
			t.Errorf("a job with a checkpoint of %d bytes has the size %d", len(c.Checkpoint), size)
		}
	}
}
