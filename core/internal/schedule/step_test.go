package schedule_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// jobsOf counts the runs with a job, skipped those with a reason.
func jobsOf(runs []api.ScheduleRun) (jobs int, skipped map[string]int) {
	skipped = map[string]int{}
	for _, run := range runs {
		if run.JobID != nil {
			jobs++
		} else {
			skipped[*run.Skipped]++
		}
	}
	return jobs, skipped
}

// A tick that is due makes one job as it was asked for, and the next is later by the interval.
func TestOneJobATick(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	before := f.put("hourly", every(time.Hour, func(r *api.ScheduleRequest) {
		expires := int64(60_000)
		r.Job.Queue, r.Job.Tags, r.Job.ExpiresAfterMS = "reports", []string{"big"}, &expires
	}))
	f.work()
	if runs := f.runs("hourly"); len(runs) != 0 {
		t.Fatalf("before its time: %v", runs)
	}
	f.back("hourly", time.Hour)
	f.work()
	f.work()
	runs, after := f.runs("hourly"), f.get("hourly")
	if len(runs) != 1 || runs[0].JobID == nil || !runs[0].At.Equal(before.NextRuns[0].Add(-time.Hour)) {
		t.Fatalf("runs %+v", runs)
	}
	job := f.Get(uuid.MustParse(*runs[0].JobID))
	if job.Type != "report" || job.Queue != "reports" || string(job.Payload) != `{"n":1.50}` || len(job.Tags) != 1 || job.State != api.StateQueued ||
		job.Deadline == nil || job.Deadline.Sub(job.CreatedAt.Time).Round(time.Second) != time.Minute {
		t.Errorf("the job is %+v", job)
	}
	if after.LastRun == nil || *after.LastRun.JobID != *runs[0].JobID || !after.NextRuns[0].Equal(runs[0].At.Add(time.Hour)) || len(after.NextRuns) != 5 {
		t.Errorf("the schedule is %+v", after)
	}
	f.check()
}

// Ticks that are at most a minute late are on time, whatever catch_up says.
func TestLateTicksAreMade(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, how := range []string{api.CatchUpNone, api.CatchUpLatest, api.CatchUpAll} {
		f.put(how, every(10*time.Second, catchUp(how, 1)))
		f.back(how, 40*time.Second+time.Second)
		f.work()
		if jobs, _ := jobsOf(f.runs(how)); jobs != 4 {
			t.Errorf("%s: %d jobs, want 4", how, jobs)
		}
	}
	f.check()
}

// An hour's worth of ticks is missed, as on a machine that was paused.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, one := range []struct {
		how  string
		most int
		want int
	}{
		{api.CatchUpNone, 100, 0}, {api.CatchUpLatest, 100, 1}, {api.CatchUpAll, 100, 60}, {api.CatchUpAll, 7, 7}, {api.CatchUpAll, 1000, 60},
	} {
		f.put("minutely", every(time.Minute, catchUp(one.how, one.most)))
		f.back("minutely", time.Hour+time.Second)
		f.work()
		runs := f.runs("minutely")
		if jobs, skipped := jobsOf(runs); jobs != one.want || len(skipped) != 0 {
			t.Errorf("%s of %d: %d jobs, skipped %v, want %d", one.how, one.most, jobs, skipped, one.want)
		}
		for i := 1; i < len(runs); i++ {
			if runs[i].At.Sub(runs[i-1].At.Time) != time.Minute {
				t.Errorf("%s of %d: from %s to %s", one.how, one.most, runs[i-1].At, runs[i].At)
			}
		}
		next := f.get("minutely").NextRuns[0]
		if until := time.Until(next.Time); until > time.Minute || until < 50*time.Second {
			t.Errorf("%s: the next tick is in %s", one.how, until)
		}
		f.check()
		if err := f.Store.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", "minutely"); err != nil {
			t.Fatal(err)
		}
		f.Exec(`DELETE FROM jobs`)
	}
}

// More ticks than one transaction takes are all made, in several.
func TestCatchUpInSteps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("secondly", every(time.Second, catchUp(api.CatchUpAll, 1000)))
	f.back("secondly", time.Hour)
	f.work()
	runs := f.runs("secondly")
	if jobs, _ := jobsOf(runs); jobs < 1000 || jobs > 1060 { // those of the meantime are on time
		t.Errorf("%d jobs, want the newest 1000", jobs)
	}
	for i := 1; i < len(runs); i++ {
		if runs[i].At.Sub(runs[i-1].At.Time) != time.Second {
			t.Fatalf("from %s to %s", runs[i-1].At, runs[i].At)
		}
	}
	f.check()
}

// While the last job lives, skip leaves the tick out, and cancel ends that job.
func TestOverlap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, how := range []string{api.OverlapAllow, api.OverlapSkip, api.OverlapCancel} {
		f.put(how, every(time.Hour, overlap(how)))
		for range 3 {
			f.back(how, time.Hour)
			f.work()
		}
		jobs, skipped := jobsOf(f.runs(how))
		live := f.CountOf(`SELECT count(*) FROM jobs WHERE id IN (SELECT job_id FROM schedule_runs WHERE name = $1)`, how)
		want := map[string][3]int{api.OverlapAllow: {3, 0, 3}, api.OverlapSkip: {1, 2, 1}, api.OverlapCancel: {3, 0, 1}}[how]
		if got := [3]int{jobs, skipped[api.SkippedOverlap], live}; got != want {
			t.Errorf("%s: jobs, skipped and live %v, want %v", how, got, want)
		}
	}
	f.check()
	// A job that runs is asked to stop, and one that has ended is in nobody's way.
	f.Exec(`DELETE FROM jobs WHERE id NOT IN (SELECT last_job_id FROM schedules)`)
	f.Exec(`UPDATE jobs SET state = 'running', attempt = 1, epoch = 1, lease_id = gen_random_uuid(), lease_expires_at = now() + interval '1 hour',
		visibility_timeout_ms = 30000, started_at = now(), worker_id = 'w' WHERE id = (SELECT last_job_id FROM schedules WHERE name = 'cancel')`)
	f.Exec(`DELETE FROM jobs WHERE id = (SELECT made_job_id FROM schedules WHERE name = 'skip')`)
	for _, name := range []string{"skip", "cancel"} {
		f.back(name, time.Hour)
	}
	f.work()
	if n := f.CountOf(`SELECT count(*) FROM jobs WHERE cancel_requested`); n != 1 {
		t.Errorf("%d running jobs are asked to stop", n)
	}
	for _, name := range []string{"skip", "cancel"} {
		if last := f.get(name).LastRun; last.JobID == nil || f.Get(uuid.MustParse(*last.JobID)).State != api.StateQueued {
			t.Errorf("%s: the last run is %+v", name, last)
		}
	}
}

// Of ticks that come together only one gets a job where overlap is not allowed.
func TestOverlapOfTicksThatComeTogether(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, how := range []string{api.OverlapSkip, api.OverlapCancel} {
		f.put(how, every(time.Minute, overlap(how), catchUp(api.CatchUpAll, 100)))
		f.back(how, 10*time.Minute)
		f.work()
		runs := f.runs(how)
		jobs, skipped := jobsOf(runs)
		if jobs != 1 || skipped[api.SkippedOverlap] != 9 {
			t.Errorf("%s: %d jobs, skipped %v", how, jobs, skipped)
		}
		if first := runs[0].JobID != nil; first != (how == api.OverlapSkip) {
			t.Errorf("%s: the first has a job: %v", how, first)
		}
	}
	f.check()
}

// A tick that a cap refuses is skipped, and tried again until the next one is due.
func TestCapsRefuseTicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := int64(1)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "narrow", api.QueueRequest{MaxActive: &one}); err != nil {
		t.Fatal(err)
	}
	if err := f.core.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.put("report", every(time.Hour, func(r *api.ScheduleRequest) { r.Job.Queue, r.Job.Type = "narrow", "test" }))
	for range 2 {
		f.back("report", time.Hour)
		f.work()
	}
	found, skipped := jobsOf(f.runs("report"))
	if found != 1 || skipped[api.SkippedCap] != 1 || *f.get("report").LastRun.Skipped != api.SkippedCap {
		t.Fatalf("%d jobs, skipped %v", found, skipped)
	}
	retry := func() {
		t.Helper()
		f.Exec(`UPDATE schedules SET due_at = now() WHERE refused_at IS NOT NULL`)
		if n := f.workAt(f.core); n != 1 {
			t.Fatalf("%d schedules were worked off", n)
		}
	}
	retry() // still full
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 1 || skipped[api.SkippedCap] != 1 {
		t.Fatalf("%d jobs, skipped %v", jobs, skipped)
	}
	claimed := f.Claim(1, time.Minute, f.NewLane(f.Tenant, "narrow"))
	f.MustEnd(jobs.Ending{Lease: claimed[0].Lease(), Kind: api.KindComplete})
	retry()
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 2 || len(skipped) != 0 || f.get("report").LastRun.Skipped != nil {
		t.Fatalf("%d jobs, skipped %v", jobs, skipped)
	}
	// The next tick ends the tries for the one before.
	for range 2 {
		f.back("report", time.Hour)
		f.work()
	}
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 2 || skipped[api.SkippedCap] != 2 {
		t.Fatalf("%d jobs, skipped %v", jobs, skipped)
	}
	if n := f.CountOf(`SELECT count(*) FROM schedules s JOIN schedule_runs r ON r.at = s.refused_at
		WHERE r.at = (SELECT max(at) FROM schedule_runs)`); n != 1 {
		t.Error("it is not the newest tick that is tried again")
	}
	f.check()
	f.NoDrift()
}

// The room of a job that overlap cancels is the new one's.
func TestCancelUnderACap(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	one := int64(1)
	if err := f.Store.Queues.Put(t.Context(), f.Tenant, "narrow", api.QueueRequest{MaxActive: &one}); err != nil {
		t.Fatal(err)
	}
	if err := f.core.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.put("report", every(time.Hour, overlap(api.OverlapCancel), func(r *api.ScheduleRequest) { r.Job.Queue = "narrow" }))
	for range 3 {
		f.back("report", time.Hour)
		f.work()
	}
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 3 || len(skipped) != 0 {
		t.Errorf("%d jobs, skipped %v", jobs, skipped)
	}
	f.check()
	f.NoDrift()
}

// Ticks of a pause are skipped and not made up for; one that was due before it is made.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("report", every(30*time.Second, catchUp(api.CatchUpAll, 100)))
	pause := func(paused bool) {
		t.Helper()
		for range 2 { // a repeat changes nothing
			if shown, err := f.Store.Schedules.PauseSchedule(t.Context(), f.Tenant, "", "report", paused); err != nil || shown.Paused != paused {
				t.Fatal(shown, err)
			}
		}
	}
	f.back("report", time.Minute)
	pause(true)
	f.work()
	f.back("report", 30*time.Second)
	f.work()
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 2 || skipped[api.SkippedPaused] != 1 {
		t.Fatalf("%d jobs, skipped %v", jobs, skipped)
	}
	f.back("report", 5*time.Minute) // nobody looks
	pause(false)
	f.work()
	if jobs, skipped := jobsOf(f.runs("report")); jobs != 2 || skipped[api.SkippedPaused] != 1 {
		t.Fatalf("%d jobs, skipped %v", jobs, skipped)
	}
	f.back("report", 30*time.Second)
	f.work()
	if jobs, _ := jobsOf(f.runs("report")); jobs != 3 {
		t.Fatalf("%d jobs after the pause", jobs)
	}
	f.check()
}

// Ticks in a window are skipped, each with its run, and not made up for.
func TestTicksInAWindowAreSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	begin := time.Now().UTC().Add(-3 * time.Minute)
	request := every(30*time.Second, catchUp(api.CatchUpAll, 100))
	request.Windows = []api.Window{{Cron: fmt.Sprintf("%d %d %d * * *", begin.Second(), begin.Minute(), begin.Hour()), DurationMS: time.Minute.Milliseconds()}}
	f.put("report", request)
	f.back("report", 5*time.Minute)
	f.work()
	jobs, skipped := jobsOf(f.runs("report"))
	if skipped[api.SkippedWindow] != 2 || jobs != 8 {
		t.Errorf("%d jobs, skipped %v", jobs, skipped)
	}
	f.check()
	begin = time.Now().UTC().Add(time.Minute)
	request.Windows[0] = api.Window{Cron: fmt.Sprintf("%d %d %d * * *", begin.Second(), begin.Minute(), begin.Hour()), DurationMS: time.Hour.Milliseconds()}
	shown := f.put("report", request)
	if next := shown.NextRuns; len(next) != api.NextRunsShown || !next[len(next)-1].After(begin.Add(time.Hour-time.Second)) || len(shown.Windows) != 1 {
		t.Errorf("next runs %v", next)
	}
}

// After a restore next_at lies in the past while runs are there: no tick is made again.
func TestRestoredSchedulesMakeNothingTwice(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("report", every(time.Minute, catchUp(api.CatchUpAll, 100)))
	f.back("report", 10*time.Minute)
	f.work()
	before := f.runs("report")
	f.Exec(`UPDATE schedules SET next_at = next_at - interval '5 minutes', due_at = next_at - interval '5 minutes', owed_until = NULL`)
	f.work()
	if after := f.runs("report"); len(after) != len(before) || f.CountOf(`SELECT count(*) FROM jobs`) != len(before) {
		t.Errorf("%d runs became %d, with %d jobs", len(before), len(after), f.CountOf(`SELECT count(*) FROM jobs`))
	}
	f.check()
}

// A step commits as a whole: where the schedule cannot be moved, there is neither job nor run.
func TestStepIsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("report", every(time.Hour))
	f.back("report", time.Hour)
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	f.Exec(`CREATE TRIGGER refuse BEFORE UPDATE OF next_at ON schedules FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if _, err := f.core.RunSchedules(t.Context(), 500); err == nil {
		t.Fatal("the step did not fail")
	}
	if jobs, runs := f.Count("jobs"), f.Count("schedule_runs"); jobs != 0 || runs != 0 {
		t.Errorf("%d jobs and %d runs of a step that failed", jobs, runs)
	}
	f.Exec(`DROP TRIGGER refuse ON schedules`)
	f.work()
	if n := f.Count("jobs"); n != 0 {
		t.Errorf("%d jobs: a schedule whose step failed is not left alone", n)
	}
	f.Exec(`UPDATE schedules SET due_at = next_at`)
	f.work()
	if n := f.Count("jobs"); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	f.check()
}

// A job that is refused for another reason than a cap, such as a step so slow that the deadline has passed, undoes its
// tick: it is no run, and made later.
func TestOtherRefusalsThanCapsAreTriedAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("slow", every(time.Hour, func(r *api.ScheduleRequest) { r.Job.ExpiresAfterMS = new(int64(1000)) }))
	f.put("other", every(time.Hour))
	f.back("slow", time.Hour)
	f.back("other", time.Hour)
	f.Exec(`CREATE FUNCTION delay() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(1.1); RETURN NEW; END $$`)
	f.Exec(`CREATE TRIGGER delay BEFORE INSERT ON schedule_runs FOR EACH ROW WHEN (NEW.name = 'slow') EXECUTE FUNCTION delay()`)
	run, err := f.core.RunSchedules(t.Context(), 500)
	if refused, ok := errors.AsType[*problem.Problem](err); !ok || refused.Code != problem.InvalidRequest || run.Worked != 1 {
		t.Errorf("%+v, %v", run, err)
	}
	if runs := f.runs("slow"); len(runs) != 0 || f.get("slow").LastRun != nil || f.Count("jobs") != 1 {
		t.Errorf("%d jobs, runs %+v, last %+v", f.Count("jobs"), runs, f.get("slow").LastRun)
	}
	f.Exec(`DROP TRIGGER delay ON schedule_runs`)
	f.Exec(`UPDATE schedules SET due_at = next_at`)
	f.work()
	if jobs, skipped := jobsOf(f.runs("slow")); jobs != 1 || len(skipped) != 0 || f.Count("jobs") != 2 {
		t.Errorf("%d jobs, skipped %v", jobs, skipped)
	}
	f.check()
}

func TestWhichRefusalsAreCaps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for code, isCap := range map[problem.Code]bool{
		problem.ActiveCapReached: true, problem.QueueFull: true, problem.TooManyLanes: true, problem.Overloaded: false, problem.InvalidRequest: false,
	} {
		name := string(code)
		f.put(name, every(time.Hour))
		f.back(name, time.Hour)
		due, err := f.Store.Schedules.DueSchedules(t.Context(), 10)
		if err != nil || len(due) != 1 {
			t.Fatal(due, err)
		}
		due[0].Template = f.Single(nil)
		due[0].Template.Refused = []*problem.Problem{problem.New(code, "no")}
		step, err := f.Store.Schedules.StepSchedules(t.Context(), due)
		if refused, ok := errors.AsType[*problem.Problem](err); ok == isCap || !isCap && refused.Code != code || isCap && (err != nil || step.Skipped[api.SkippedCap] != 1) {
			t.Errorf("%s: %+v, %v", code, step, err)
		}
		if _, skipped := jobsOf(f.runs(name)); skipped[api.SkippedCap] != map[bool]int{true: 1}[isCap] {
			t.Errorf("%s: skipped %v", code, skipped)
		}
		if err := f.Store.Schedules.DeleteSchedule(t.Context(), f.Tenant, "", name); err != nil {
			t.Fatal(err)
		}
	}
}

// One that cannot be worked off does not stop the others of its step.
func TestOneFailureStopsNoOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, name := range []string{"a", "bad", "c"} {
		f.put(name, every(time.Hour))
		f.back(name, time.Hour)
	}
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$`)
	f.Exec(`CREATE TRIGGER refuse BEFORE INSERT ON schedule_runs FOR EACH ROW WHEN (NEW.name = 'bad') EXECUTE FUNCTION refuse()`)
	if run, err := f.core.RunSchedules(t.Context(), 500); err == nil || run.Worked != 2 {
		t.Errorf("worked off %d, %v", run.Worked, err)
	}
	f.check()
}

// A list says how the newest runs of each schedule ended, the newest first: of a job that is no longer kept, only that
// it ran.
func TestAListSaysHowTheNewestRunsEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("a-new", every(time.Hour))
	f.put("busy", every(time.Hour, catchUp(api.CatchUpAll, 100), func(r *api.ScheduleRequest) { r.Job.Type = "test" }))
	f.put("other", every(time.Hour, catchUp(api.CatchUpAll, 100)))
	f.back("busy", 7*time.Hour)
	f.back("other", 2*time.Hour)
	f.work()
	runs := f.runs("busy")
	slices.Reverse(runs)
	if len(runs) < 6 {
		t.Fatalf("%d runs", len(runs))
	}
	id := func(i int) uuid.UUID { return uuid.MustParse(*runs[i].JobID) }
	f.Exec(`DELETE FROM jobs WHERE id = $1`, id(3))
	f.Exec(`UPDATE schedule_runs SET job_id = NULL, skipped = 'overlap' WHERE job_id = $1`, id(4))
	for _, job := range f.Claim(100, time.Minute, f.NewLane(f.Tenant, api.DefaultQueue)) {
		switch job.ID {
		case id(1):
			f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindComplete})
		case id(2):
			f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindFail, Permanent: true})
		}
	}
	page, err := f.Store.Schedules.ListSchedules(t.Context(), f.Tenant, "", "", 10)
	listed := page.Items
	if err != nil || len(listed) != 3 || listed[0].RecentRuns == nil || len(*listed[0].RecentRuns) != 0 || len(*listed[2].RecentRuns) != 2 {
		t.Fatalf("%+v %v", listed, err)
	}
	got := *listed[1].RecentRuns
	if len(got) != api.RecentRunsShown {
		t.Fatalf("%d runs", len(got))
	}
	for i, want := range []string{api.StateRunning, api.StateCompleted, api.StateDeadLetter, "", ""} {
		state := ""
		if got[i].State != nil {
			state = *got[i].State
		}
		if state != want || !got[i].At.Equal(runs[i].At.Time) || i != 4 && *got[i].JobID != *runs[i].JobID {
			t.Errorf("run %d: %+v is %q, want %q", i, got[i].ScheduleRun, state, want)
		}
	}
	if got[4].JobID != nil || *got[4].Skipped != api.SkippedOverlap {
		t.Errorf("%+v", got[4])
	}
	if one := f.get("busy"); one.RecentRuns != nil {
		t.Errorf("%+v", one.RecentRuns)
	}
}

// A tick whose job is refused since the one before is live is skipped, as with overlap skip.
func TestATickThatFailsOnItsLiveJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.put("k", every(time.Hour, func(r *api.ScheduleRequest) { r.Job.Dedupe = &api.Dedupe{Key: "k", OnLive: api.OnLiveFail} }))
	for range 2 {
		f.back("k", time.Hour)
		f.work()
	}
	if jobs, skipped := jobsOf(f.runs("k")); jobs != 1 || skipped[api.SkippedOverlap] != 1 {
		t.Errorf("%d jobs, skipped %v", jobs, skipped)
	}
	f.check()
}
