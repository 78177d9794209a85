package deadletter_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// sampleOf are the jobs of a sample.
func (f *fixture) sampleOf(id string) (ids []uuid.UUID) {
	f.Helper()
	rows, err := f.Direct.Query(f.Context(), `SELECT job_id FROM redrive_samples WHERE redrive_id = $1 ORDER BY job_id`, id)
	if err != nil {
		f.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one uuid.UUID
		if err := rows.Scan(&one); err != nil {
			f.Fatal(err)
		}
		ids = append(ids, one)
	}
	return ids
}

// What others do with jobs of the sample before they are queued leaves them out of it; what they do later
// counts as the end that it followed.
func TestCanaryBesideOthers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ctx := t.Context()
	f.AddDeadLetters(12, celltest.DeadLetterRows{})
	made := f.careful(12, 0.5)
	ids := f.sampleOf(made.ID)
	f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", ids[:1], nil)
	if _, err := f.Store.DeadLetters.Discard(ctx, f.Tenant, "", ids[1:2]); err != nil {
		t.Fatal(err)
	}
	f.Exec(`UPDATE dead_letters SET dedupe_key = 'twin' WHERE id = ANY($1)`, ids[2:4])
	now, redriven := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 0, 9)
	if len(redriven) != 9 || now.Refused != 0 {
		t.Errorf("%d redriven: %+v", len(redriven), now)
	}
	queued := map[uuid.UUID]bool{}
	for _, one := range redriven {
		queued[one.ID] = true
	}
	mine := slices.DeleteFunc(ids, func(id uuid.UUID) bool { return !queued[id] })
	leases := map[uuid.UUID]claim.Job{}
	for _, job := range f.Claim(20, time.Minute) {
		leases[job.ID] = job
	}
	finish := func(id uuid.UUID, kind string) {
		t.Helper()
		job := leases[id]
		ending := jobs.Ending{Lease: job.Lease(), Kind: kind, Permanent: kind == api.KindFail}
		if kind == api.KindFail {
			ending.Error = &api.JobError{Type: "again"}
		}
		f.MustEnd(ending)
	}
	finish(mine[0], api.KindComplete)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 1, 0, 8)
	f.Exec(`DELETE FROM finished_jobs`) // its retention ends: what was seen stays
	finish(mine[1], api.KindFail)
	f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", mine[1:2], nil)
	finish(mine[2], api.KindFail)
	if _, err := f.Store.DeadLetters.Discard(ctx, f.Tenant, "", mine[2:3]); err != nil {
		t.Fatal(err)
	}
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 1, 2, 6)
	// The fourth is redriven by another request and completes: it had died.
	finish(mine[3], api.KindFail)
	f.Store.DeadLetters.Redrive(ctx, f.Tenant, "", mine[3:4], nil)
	for _, job := range f.Claim(20, time.Minute) {
		f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindComplete})
	}
	finish(mine[4], api.KindComplete)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 2, 3, 4)
	// A cancelled job did not complete.
	f.Exec(`UPDATE jobs SET cancel_requested = true WHERE id = $1`, mine[5])
	if _, _, err := f.Store.Jobs.Cancel(ctx, f.Tenant, "", mine[5]); err != nil {
		t.Fatal(err)
	}
	finish(mine[5], api.KindFail)
	finish(mine[6], api.KindFail)
	now, _ = f.step(made.ID, nil)
	f.stands(now, api.CanaryFailed, 2, 5, 2)
	if now.State != api.RedriveStopped || f.Count("jobs WHERE redrives > 1") != 0 {
		t.Errorf("%+v", now)
	}
}

// Of two at once one takes the sample; the other says that nothing was left to try.
func TestCanariesAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(5, celltest.DeadLetterRows{})
	first, second := f.careful(5, 1), f.careful(5, 1)
	now, _ := f.step(first.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 0, 5)
	for f.redriveNow(second.ID).State == api.RedriveRunning {
		if _, redriven := f.step(second.ID, nil); len(redriven) != 0 {
			t.Fatal("redriven twice")
		}
	}
	now = f.redriveNow(second.ID)
	f.stands(now, api.CanaryFailed, 0, 0, 0)
	if now.State != api.RedriveStopped || !strings.HasPrefix(*now.Canary.Reason, "None of the 5 jobs in the sample could be queued again") {
		t.Errorf("%+v", now.Canary)
	}
	f.end(5, api.KindComplete)
	if ended, _ := f.finish(first.ID, nil); ended.State != api.RedriveDone || ended.Done != 5 {
		t.Errorf("%+v", ended)
	}
}

func TestCanaryIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(20, celltest.DeadLetterRows{})
	made := f.careful(5, 1)
	f.step(made.ID, nil)
	id := uuid.MustParse(made.ID)
	now, err := f.Store.DeadLetters.CancelRedrive(t.Context(), f.Tenant, "", id)
	if err != nil || now.State != api.RedriveCancelled || f.Count("redrive_samples") != 0 {
		t.Errorf("%+v, %v", now, err)
	}
	f.stands(now, api.CanaryWaiting, 0, 0, 5)
	f.end(5, api.KindComplete)
	if step, err := f.Store.DeadLetters.StepRedrive(t.Context(), id, nil, nil, 0.5); err != nil || step.Worked || f.Count("dead_letters") != 15 {
		t.Errorf("it went on: %+v, %v", step, err)
	}
	// Unfinished ones are bounded, with a canary and without.
	for range api.MaxRedrives {
		f.careful(1, 1)
	}
	if _, err := f.Store.DeadLetters.CreateRedrive(t.Context(), f.Tenant, "", deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive}); err == nil {
		t.Error("one more than may be unfinished")
	}
	if running, err := f.Store.DeadLetters.RunningRedrives(t.Context(), 50); err != nil || len(running) != api.MaxRedrives || running[0].Canary == nil {
		t.Errorf("%d running, %v", len(running), err)
	}
	f.Exec(`DELETE FROM redrives`)
	if n := f.Count("redrive_samples"); n != 0 {
		t.Errorf("%d rows of samples are left without their redrive", n)
	}
}

// A step and what is written down of it are one.
func TestCanaryStepIsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(30, celltest.DeadLetterRows{})
	made := f.careful(10, 1)
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	fails := func() {
		t.Helper()
		f.due(made.ID)
		if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err == nil {
			t.Error("a step whose progress could not be stored was committed")
		}
	}
	for _, table := range []string{"redrives", "redrive_samples"} {
		column := map[string]string{"redrives": "done", "redrive_samples": "state"}[table]
		f.Exec(`CREATE TRIGGER refuse BEFORE UPDATE OF ` + column + ` ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION refuse()`)
		fails()
		if f.Count("dead_letters") != 30 || f.Count("redrive_samples WHERE state = 'chosen'") != 10 {
			t.Error("a step that failed left something")
		}
		f.Exec(`DROP TRIGGER refuse ON ` + table)
	}
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryWaiting, 0, 0, 10)
}

// Many cores at once, while jobs end: each dead letter is redriven once, and those outside the sample only
// after it has passed.
func TestManyCoresTakeCareOfACanary(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(1500, celltest.DeadLetterRows{})
	rate := 1000.0
	made := f.careful(300, 1, func(r *deadletter.NewRedrive) { r.Rate = &rate })
	sample := map[uuid.UUID]bool{}
	for _, id := range f.sampleOf(made.ID) {
		sample[id] = true
	}
	var mu sync.Mutex
	rose := map[uuid.UUID]int{}
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(3 * time.Millisecond) {
				step, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0)
				if err != nil {
					t.Error(err)
					return
				}
				// The sample cannot have passed before this test has completed it.
				mu.Lock()
				for _, one := range step.Redriven {
					rose[one.ID]++
					if !sample[one.ID] {
						t.Errorf("%s rose before the sample has passed", one.ID)
					}
				}
				done := len(rose) == len(sample)
				mu.Unlock()
				if done {
					return
				}
			}
		})
	}
	group.Wait()
	f.end(len(sample), api.KindComplete)
	now, _ := f.step(made.ID, nil)
	f.stands(now, api.CanaryPassed, 300, 0, 0)
	ended, others := f.finish(made.ID, nil)
	for _, id := range others {
		rose[id]++
	}
	for id, n := range rose {
		if n != 1 {
			t.Errorf("%s rose %d times", id, n)
		}
	}
	if ended.Done != 1500 || len(rose) != 1500 {
		t.Errorf("%d rose: %+v", len(rose), ended)
	}
}

// One that a user's key asked for takes its sample of the user's jobs.
func TestCanaryOfAUser(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(3, celltest.DeadLetterRows{User: "bob"})
	f.AddDeadLetters(30, celltest.DeadLetterRows{User: "eve", From: 100})
	made, err := f.Store.DeadLetters.CreateRedrive(t.Context(), f.Tenant, "bob", deadletter.NewRedrive{
		ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive, Canary: &api.CanaryRequest{Count: 10, Success: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.step(made.ID, nil)
	if n := f.Count("jobs WHERE user_id = 'bob'"); n != 3 || f.Count("jobs") != 3 {
		t.Errorf("%d of bob's jobs of %d", n, f.Count("jobs"))
	}
}
