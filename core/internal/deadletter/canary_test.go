package deadletter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// careful begins a redrive with a canary.
func (f *fixture) careful(count int, success float64, change ...func(*deadletter.NewRedrive)) api.Redrive {
	f.Helper()
	request := deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive, Canary: &api.CanaryRequest{Count: count, Success: success}}
	for _, do := range change {
		do(&request)
	}
	made, err := f.Store.DeadLetters.CreateRedrive(f.Context(), f.Tenant, "", request)
	if err != nil {
		f.Fatal(err)
	}
	if made.State != api.RedriveRunning || made.Canary == nil || made.Canary.State != api.CanarySampling || made.Canary.TimeoutSeconds != api.DefaultCanaryTimeout {
		f.Fatalf("made %+v, %+v", made, made.Canary)
	}
	return made
}

// step makes one step of a redrive and reads it.
func (f *fixture) step(id string, capsOf deadletter.CapsOf) (api.Redrive, []deadletter.Redriven) {
	f.Helper()
	f.due(id)
	step, err := f.Store.DeadLetters.StepRedrive(f.Context(), uuid.MustParse(id), capsOf, nil, 0.5)
	if err != nil {
		f.Fatal(err)
	}
	return f.redriveNow(id), step.Redriven
}

// end ends up to n queued jobs, or fails the test where there are not so many.
func (f *fixture) end(n int, kind string) []claim.Job {
	f.Helper()
	found := f.Claim(n, time.Minute)
	if len(found) != n {
		f.Fatalf("claimed %d jobs, want %d", len(found), n)
	}
	for _, job := range found {
		ending := jobs.Ending{Lease: job.Lease(), Kind: kind}
		if kind == api.KindFail {
			ending.Permanent, ending.Error = true, &api.JobError{Type: "Refused", Message: "the door is closed to " + job.ID.String()}
		}
		f.MustEnd(ending)
	}
	return found
}

// stands fails the test where a canary is not in a state with these counts.
func (f *fixture) stands(now api.Redrive, state string, completed, failed, waiting int) {
	f.Helper()
	c := now.Canary
	if c.State != state || c.Completed != completed || c.Failed != failed || c.Waiting != waiting || c.Sampled != completed+failed+waiting {
		f.Errorf("canary %+v of %+v; want %s: %d completed, %d failed, %d waiting", c, now, state, completed, failed, waiting)
	}
}

func TestCanaryPasses(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(600, celltest.DeadLetterRows{})
	made := f.careful(10, 0.9)
	now, redriven := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 0, 10)
	if len(redriven) != 10 || now.State != api.RedriveRunning || now.Done != 10 {
		t.Errorf("%d redriven: %+v", len(redriven), now)
	}
	f.end(8, api.KindComplete)
	f.end(1, api.KindFail)
	now, redriven = f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 8, 1, 1)
	if len(redriven) != 0 || f.Count("jobs") != 1 {
		t.Errorf("%d redriven before the sample has ended", len(redriven))
	}
	f.end(1, api.KindComplete)
	now, redriven = f.step(made.ID, nil)
	f.stands(now, api.CanaryPassed, 9, 1, 0)
	if len(redriven) != 0 || now.State != api.RedriveRunning || now.Canary.Reason != nil || f.Count("redrive_samples") != 0 {
		t.Errorf("%d redriven: %+v", len(redriven), now)
	}
	ended, others := f.finish(made.ID, nil)
	f.stands(ended, api.CanaryPassed, 9, 1, 0)
	// The one that died again is no part of the rest.
	if ended.State != api.RedriveDone || ended.Done != 600 || ended.Matched != 600 || len(others) != 590 || f.Count("dead_letters") != 1 ||
		f.Count("jobs WHERE redrives = 1") != 590 || f.Count("finished_jobs WHERE redrives = 1") != 9 {
		t.Errorf("%d others: %+v", len(others), ended)
	}
}

// It does not wait for the others once too few can complete.
func TestCanaryStops(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(50, celltest.DeadLetterRows{})
	made := f.careful(10, 0.9)
	f.step(made.ID, nil)
	f.end(1, api.KindFail)
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 1, 9)
	f.end(1, api.KindFail)
	f.end(3, api.KindComplete)
	now, redriven := f.step(made.ID, nil)
	f.stands(now, api.CanaryFailed, 3, 2, 5)
	if now.State != api.RedriveStopped || now.EndedAt == nil || now.Done != 10 || len(redriven) != 0 || f.Count("dead_letters") != 42 || f.Count("redrive_samples") != 0 {
		t.Errorf("%+v, %d dead", now, f.Count("dead_letters"))
	}
	want := "Of 10 jobs in the sample 3 completed and 2 failed; at least 9 must complete. The most frequent error (2 of 2): Refused: the door is closed to "
	if now.Canary.Reason == nil || !strings.HasPrefix(*now.Canary.Reason, want) {
		t.Errorf("reason %v", *now.Canary.Reason)
	}
	if step, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err != nil || step.Worked {
		t.Errorf("a step after the end: %+v, %v", step, err)
	}
}

// An attempt that fails is no end: what counts is how the job ends.
func TestCanaryCountsJobsNotAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(5, celltest.DeadLetterRows{})
	made := f.careful(5, 1)
	f.step(made.ID, nil)
	for _, job := range f.Claim(5, time.Minute) {
		f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "once"}})
	}
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 0, 5)
	f.Exec(`UPDATE jobs SET state = 'queued', run_at = now(), ready_at = now()`)
	f.end(5, api.KindComplete)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryPassed, 5, 0, 0)
}

// A rare cause is in the sample, and the sample is no row of the oldest.
func TestCanarySpreads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(1000, celltest.DeadLetterRows{})
	f.AddDeadLetters(3, celltest.DeadLetterRows{Reason: "permanent", From: 2000})
	f.AddDeadLetters(2, celltest.DeadLetterRows{Queue: "elsewhere", From: 3000})
	f.AddDeadLetters(9, celltest.DeadLetterRows{Type: "other", From: 3500})
	f.careful(15, 1, func(r *deadletter.NewRedrive) { r.Filter.Type = "test" })
	const of = `redrive_samples s JOIN dead_letters d ON d.id = s.job_id WHERE d.type = 'test' AND s.state = 'chosen' AND `
	if common, rare, away := f.Count(of+"d.queue = 'default' AND d.reason = 'exhausted'"), f.Count(of+"d.reason = 'permanent'"), f.Count(of+"d.queue = 'elsewhere'"); common != 10 || rare != 3 || away != 2 {
		t.Errorf("%d common, %d rare, %d elsewhere", common, rare, away)
	}
	for _, order := range []string{"", " DESC"} {
		first := f.Count(of + `d.id IN (SELECT id FROM dead_letters WHERE queue = 'default' AND reason = 'exhausted' ORDER BY id` + order + ` LIMIT 10)`)
		if first == 10 {
			t.Errorf("the sample is the first ten by id%s", order)
		}
	}
}

func TestCanaryOfFew(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(3, celltest.DeadLetterRows{})
	made := f.careful(20, 0.5)
	f.step(made.ID, nil)
	f.end(2, api.KindComplete)
	f.end(1, api.KindFail)
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryPassed, 2, 1, 0)
	if ended, more := f.finish(made.ID, nil); ended.State != api.RedriveDone || ended.Done != 3 || len(more) != 0 {
		t.Errorf("%+v", ended)
	}
	none := f.careful(20, 1, func(r *deadletter.NewRedrive) { r.Filter.Type = "none" })
	if ended, _ := f.finish(none.ID, nil); ended.State != api.RedriveDone || ended.Canary.State != api.CanaryPassed || ended.Done != 0 {
		t.Errorf("without any: %+v, %+v", ended, ended.Canary)
	}
}

// A sample that nobody serves is not waited for for ever.
func TestCanaryTimesOut(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(20, celltest.DeadLetterRows{})
	made := f.careful(4, 0.5)
	f.step(made.ID, nil)
	f.end(3, api.KindComplete)
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 3, 0, 1) // enough, and still waited for
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '3599 seconds' + interval '10 minutes'`)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 3, 0, 1)
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '10 minutes 1 second'`)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryFailed, 3, 0, 1)
	if now.State != api.RedriveStopped || !strings.HasPrefix(*now.Canary.Reason, "After 3600 seconds 1 of 4 jobs in the sample had not ended; 3 completed, 0 failed. Look whether") {
		t.Errorf("%+v, %s", now, *now.Canary.Reason)
	}
	// What ended in time counts, although nobody looked in time.
	late := f.careful(4, 1)
	f.step(late.ID, nil)
	f.end(5, api.KindComplete) // with the one of before
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '2 hours'`)
	now, _ = f.step(late.ID, nil)
	f.stands(now, api.CanaryPassed, 4, 0, 0)
}

func TestCanaryUnderACapAndARate(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(30, celltest.DeadLetterRows{})
	capsOf := func(string, *string) []caps.Cap {
		return []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 4}}
	}
	rate := 30.0 // three at a time
	made := f.careful(10, 1, func(r *deadletter.NewRedrive) { r.Rate = &rate })
	now, _ := f.step(made.ID, capsOf)
	f.stands(now, api.CanarySampling, 0, 0, 3)
	now, _ = f.step(made.ID, capsOf)
	f.stands(now, api.CanarySampling, 0, 0, 4)
	if now.Waiting == nil || *now.Waiting != api.WaitingActiveCap {
		t.Errorf("at the cap %+v", now)
	}
	for done := 0; done < 10; {
		n := f.Count("jobs WHERE state = 'queued'")
		f.end(n, api.KindComplete)
		done += n
		now, _ = f.step(made.ID, capsOf)
		if f.Count("jobs") > 4 {
			t.Fatalf("%d jobs under a cap of 4", f.Count("jobs"))
		}
	}
	f.stands(now, api.CanaryPassed, 10, 0, 0)
	if now.Done != 10 || now.Waiting != nil {
		t.Errorf("%+v", now)
	}
	f.NoDrift()
	// The time covers a sample that cannot be queued as well.
	stuck := f.careful(4, 1)
	full := func(string, *string) []caps.Cap {
		return []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 0}}
	}
	if now, _ = f.step(stuck.ID, full); now.Waiting == nil {
		t.Errorf("%+v", now)
	}
	f.Exec(`UPDATE redrives SET created_at = created_at - interval '2 hours'`)
	now, _ = f.step(stuck.ID, full)
	f.stands(now, api.CanaryFailed, 0, 0, 0)
	if now.State != api.RedriveStopped || now.Waiting != nil || !strings.Contains(*now.Canary.Reason, "4 of 4 jobs in the sample had not ended, and 4 of these were not queued again yet") {
		t.Errorf("%+v, %+v", now, now.Canary)
	}
}
