package deadletter_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// finish steps until the redrive has ended, and gives all that rose.
func (f *fixture) finish(id string, capsOf deadletter.CapsOf) (api.Redrive, []uuid.UUID) {
	f.Helper()
	var redriven []uuid.UUID
	var now api.Redrive
	celltest.EventuallyWithin(f, time.Minute, "the redrive to end", func() bool {
		step, err := f.Store.DeadLetters.StepRedrive(f.Context(), uuid.MustParse(id), capsOf, nil, 0.5)
		if err != nil {
			f.Fatal(err)
		}
		for _, one := range step.Redriven {
			redriven = append(redriven, one.ID)
		}
		now = f.redriveNow(id)
		return now.State != api.RedriveRunning
	})
	return now, redriven
}

func (f *fixture) redriveNow(id string) api.Redrive {
	f.Helper()
	now, err := f.Store.DeadLetters.GetRedrive(f.Context(), f.Tenant, "", uuid.MustParse(id))
	if err != nil {
		f.Fatal(err)
	}
	return now
}

// due makes a redrive due at once.
func (f *fixture) due(id string) {
	f.Helper()
	f.Exec(`UPDATE redrives SET next_at = statement_timestamp() WHERE id = $1`, id)
}

func TestRedriveByFilter(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(1200, celltest.DeadLetterRows{})
	f.AddDeadLetters(300, celltest.DeadLetterRows{Type: "other", From: 5000})
	f.AddDeadLetters(100, celltest.DeadLetterRows{Queue: "elsewhere", From: 9000})
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{Queue: "default", Type: "test"}, nil)
	if made.Matched != 1200 || made.MatchedCapped || made.Done != 0 || made.State != api.RedriveRunning || made.Action != api.ActionRedrive {
		t.Errorf("made %+v", made)
	}
	ended, redriven := f.finish(made.ID, nil)
	if ended.State != api.RedriveDone || ended.Done != 1200 || ended.Refused != 0 || ended.Matched != 1200 || ended.EndedAt == nil {
		t.Errorf("ended %+v", ended)
	}
	slices.SortFunc(redriven, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	if len(slices.Compact(redriven)) != 1200 || f.Count("jobs WHERE redrives = 1 AND state = 'queued' AND attempt = 0 AND epoch = 3") != 1200 || f.Count("dead_letters") != 400 {
		t.Errorf("%d rose, %d jobs, %d dead", len(redriven), f.Count("jobs"), f.Count("dead_letters"))
	}
	// What it left is discarded, and what has ended takes no further step.
	gone, _ := f.finish(f.Redrive(api.ActionDiscard, api.DeadLetterFilter{Type: "other"}, nil).ID, nil)
	if gone.Done != 300 || f.Count("dead_letters") != 100 || f.Count("jobs") != 1200 {
		t.Errorf("discard %+v, %d dead", gone, f.Count("dead_letters"))
	}
	if step, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err != nil || step.Worked {
		t.Errorf("a step after the end: %+v, %v", step, err)
	}
}

// A redrive takes what was dead when it was asked for: what dies again while it goes
// on stays dead, and is no part of it.
func TestRedriveTakesEachOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(20, celltest.DeadLetterRows{})
	rate := 50.0 // five at a time
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, &rate)
	for f.redriveNow(made.ID).State == api.RedriveRunning {
		f.due(made.ID)
		if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err != nil {
			t.Fatal(err)
		}
		for _, job := range f.Claim(10, 30*time.Second) {
			f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "again"}})
		}
	}
	if ended := f.redriveNow(made.ID); ended.Done != 20 || ended.Matched != 20 || f.Count("dead_letters WHERE redrives = 1") != 20 {
		t.Errorf("%+v, %d dead again", ended, f.Count("dead_letters WHERE redrives = 1"))
	}
}

// A step and what is written down of it are one: where one fails the other did not
// happen.
func TestRedriveStepIsWhole(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(700, celltest.DeadLetterRows{})
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	f.Exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'not now'; END $$`)
	f.Exec(`CREATE TRIGGER refuse BEFORE UPDATE OF done ON redrives FOR EACH ROW EXECUTE FUNCTION refuse()`)
	for range 3 {
		f.due(made.ID)
		if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err == nil {
			t.Error("a step whose progress could not be stored was committed")
		}
	}
	if n := f.Count("dead_letters"); n != 700 {
		t.Errorf("%d of 700 dead letters are left by steps that failed", n)
	}
	f.Exec(`DROP TRIGGER refuse ON redrives`)
	f.due(made.ID)
	if ended, _ := f.finish(made.ID, nil); ended.Done != 700 || ended.State != api.RedriveDone || ended.Error != nil {
		t.Errorf("%+v", ended)
	}
}

func TestRedriveFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(1, celltest.DeadLetterRows{})
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	f.Exec(`ALTER TABLE jobs ADD CONSTRAINT none CHECK (redrives < 1)`)
	steps := 0
	for ; f.redriveNow(made.ID).State == api.RedriveRunning && steps < 50; steps++ {
		f.due(made.ID)
		if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err == nil {
			t.Fatal("it did not fail")
		}
	}
	ended := f.redriveNow(made.ID)
	if ended.State != api.RedriveFailed || ended.Error == nil || strings.Contains(*ended.Error, "constraint") || f.Count("dead_letters") != 1 || steps != 8 {
		t.Errorf("after %d steps %+v", steps, ended)
	}
}

func TestRedriveRefusesDuplicates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(6, celltest.DeadLetterRows{})
	// 1 and 2 share a key, 3 has a live job's, 4 has it for another user.
	f.Exec(`WITH n AS (SELECT id, row_number() OVER (ORDER BY id) AS at FROM dead_letters)
	        UPDATE dead_letters d SET dedupe_key = CASE WHEN at < 3 THEN 'twin' ELSE 'live' END, user_id = CASE at WHEN 4 THEN 'bob' END
	        FROM n WHERE n.id = d.id AND at < 5`)
	live := "live"
	f.Submit(f.Job(func(j *submit.NewJob) { j.DedupeKey = &live }))
	ended, _ := f.finish(f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil).ID, nil)
	if ended.Done != 4 || ended.Refused != 2 || ended.State != api.RedriveDone || f.Count("dead_letters") != 2 {
		t.Errorf("%+v", ended)
	}
}

// A limit that is set while a redrive runs counts each of its jobs or none: what a job is marked with is what was counted.
func TestACapThatComesDuringARedrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(10, celltest.DeadLetterRows{})
	after := func(calls int) deadletter.CapsOf {
		return func(string, *string) []caps.Cap {
			if calls--; calls >= 0 {
				return nil
			}
			return []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 100}}
		}
	}
	five := f.deadIDs()[:5]
	for i, result := range f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", five, after(len(five))) {
		if result.Err != nil {
			t.Fatalf("%s: %v", five[i], result.Err)
		}
	}
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), after(5), nil, 0.5); err != nil || f.Count("jobs") != 10 {
		t.Fatalf("%d jobs, %v", f.Count("jobs"), err)
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) != 0 {
		t.Errorf("drift %v, %v", drifts, err)
	}
}

// A full cap stops nothing for good: the redrive says that it waits, and goes on when
// jobs have ended.
func TestRedriveWaitsForCapacity(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(10, celltest.DeadLetterRows{})
	capsOf := func(string, *string) []caps.Cap {
		return []caps.Cap{{CountKey: caps.CountKey{Tenant: f.Tenant, Counter: caps.ActiveTenant}, Limit: 4}}
	}
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	for want := 4; ; want = min(want+4, 10) {
		f.due(made.ID)
		if _, err := f.Store.DeadLetters.StepRedrive(t.Context(), uuid.MustParse(made.ID), capsOf, nil, 0.5); err != nil {
			t.Fatal(err)
		}
		now := f.redriveNow(made.ID)
		if int(now.Done) != want || f.Count("jobs") > 4 {
			t.Fatalf("want %d done: %+v, %d active", want, now, f.Count("jobs"))
		}
		if want == 10 {
			if now.State != api.RedriveDone || now.Waiting != nil {
				t.Errorf("at the end %+v", now)
			}
			break
		}
		if now.State != api.RedriveRunning || now.Waiting == nil || *now.Waiting != api.WaitingActiveCap {
			t.Errorf("while it waits %+v", now)
		}
		for _, job := range f.Claim(4, 30*time.Second) {
			f.MustEnd(jobs.Ending{Lease: job.Lease(), Kind: api.KindComplete})
		}
	}
	if drifts, err := f.Store.Counts.Verify(t.Context()); err != nil || len(drifts) != 0 {
		t.Errorf("drift %v, %v", drifts, err)
	}
}

func TestRedriveIsCancelled(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(100, celltest.DeadLetterRows{})
	rate := 100.0
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, &rate)
	id := uuid.MustParse(made.ID)
	if step, err := f.Store.DeadLetters.StepRedrive(t.Context(), id, nil, nil, 0.5); err != nil || len(step.Redriven) != 10 {
		t.Fatalf("%d rose: %v", len(step.Redriven), err)
	}
	for range 2 {
		if now, err := f.Store.DeadLetters.CancelRedrive(t.Context(), f.Tenant, "", id); err != nil || now.State != api.RedriveCancelled || now.Done != 10 || now.EndedAt == nil {
			t.Errorf("%+v, %v", now, err)
		}
	}
	if step, err := f.Store.DeadLetters.StepRedrive(t.Context(), id, nil, nil, 0.5); err != nil || step.Worked || f.Count("dead_letters") != 90 {
		t.Errorf("it went on after its cancel: %+v, %v", step, err)
	}
	for _, whose := range []struct {
		tenant uuid.UUID
		user   string
	}{{f.NewTenant(), ""}, {f.Tenant, "bob"}} {
		if _, err := f.Store.DeadLetters.GetRedrive(t.Context(), whose.tenant, whose.user, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("seen by another: %v", err)
		}
		if _, err := f.Store.DeadLetters.CancelRedrive(t.Context(), whose.tenant, whose.user, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("cancelled by another: %v", err)
		}
	}
}

// Many cores at once: each dead letter is redriven once, and counted once.
func TestManyCoresRedrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(3000, celltest.DeadLetterRows{})
	made := f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
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
				mu.Lock()
				for _, one := range step.Redriven {
					rose[one.ID]++
				}
				mu.Unlock()
				if now, err := f.Store.DeadLetters.GetRedrive(t.Context(), f.Tenant, "", uuid.MustParse(made.ID)); err != nil || now.State != api.RedriveRunning {
					return
				}
			}
		})
	}
	group.Wait()
	for id, n := range rose {
		if n != 1 {
			t.Errorf("%s rose %d times", id, n)
		}
	}
	if now := f.redriveNow(made.ID); now.Done != 3000 || len(rose) != 3000 {
		t.Errorf("%d rose: %+v", len(rose), now)
	}
}

func TestRedrivesAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(2, celltest.DeadLetterRows{User: "bob"})
	f.AddDeadLetters(3, celltest.DeadLetterRows{User: "eve", From: 100})
	var last api.Redrive
	for range api.MaxRedrives {
		last = f.Redrive(api.ActionRedrive, api.DeadLetterFilter{}, nil)
	}
	another := deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive}
	if _, err := f.Store.DeadLetters.CreateRedrive(t.Context(), f.Tenant, "", another); !errors.Is(err, deadletter.ErrTooManyRedrives) {
		t.Errorf("one too many: %v", err)
	}
	listed, err := f.Store.DeadLetters.ListRedrives(t.Context(), f.Tenant, "", uuid.Max, 3)
	if err != nil || len(listed) != 3 || listed[0].ID != last.ID {
		t.Errorf("%+v, %v", listed, err)
	}
	if _, err := f.Store.DeadLetters.CancelRedrive(t.Context(), f.Tenant, "", uuid.MustParse(last.ID)); err != nil {
		t.Fatal(err)
	}
	// One that a user's key asked for touches the user's alone.
	made, err := f.Store.DeadLetters.CreateRedrive(t.Context(), f.Tenant, "bob", another)
	if err != nil || made.Matched != 2 {
		t.Fatalf("%+v, %v", made, err)
	}
	if ended, redriven := f.finish(made.ID, nil); ended.Done != 2 || len(redriven) != 2 || f.Count("dead_letters WHERE user_id = 'eve'") != 3 {
		t.Errorf("%+v", ended)
	}
	if listed, err = f.Store.DeadLetters.ListRedrives(t.Context(), f.Tenant, "bob", uuid.Max, 50); err != nil || len(listed) != 1 {
		t.Errorf("bob sees %+v, %v", listed, err)
	}
}

// Keys that are bound to one user take half of the tenant's redrives, and leave the others to the rest.
func TestAUserTakesHalfOfTheRedrives(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	create := func(user string) error {
		_, err := f.Store.DeadLetters.CreateRedrive(t.Context(), f.Tenant, user, deadletter.NewRedrive{ID: uuid.Must(uuid.NewV7()), Action: api.ActionRedrive})
		return err
	}
	made := 0
	for ; made <= api.MaxRedrives; made++ {
		if err := create("bob"); err != nil {
			if !errors.Is(err, deadletter.ErrTooManyUserRedrives) {
				t.Error(err)
			}
			break
		}
	}
	if made != api.MaxRedrives/2 {
		t.Errorf("a user has %d redrives", made)
	}
	for _, other := range []string{"eve", ""} {
		if err := create(other); err != nil {
			t.Errorf("of %q: %v", other, err)
		}
	}
}

func TestDeadLetterGroups(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(5, celltest.DeadLetterRows{User: "bob"})
	f.AddDeadLetters(7, celltest.DeadLetterRows{Reason: "permanent", From: 100})
	f.AddDeadLetters(2, celltest.DeadLetterRows{Queue: "elsewhere", From: 200})
	groups, err := f.Store.DeadLetters.DeadLetterGroups(t.Context(), f.Tenant, "", api.DeadLetterFilter{}, 2)
	if err != nil || groups.Groups != 3 || groups.Read != 14 || groups.ReadCapped || len(groups.Items) != 2 {
		t.Fatalf("%+v, %v", groups, err)
	}
	first := groups.Items[0]
	if first.Count != 7 || first.Reason != "permanent" || first.CountCapped || first.Example.Error == nil || first.Example.Error.Message != "broken" ||
		!first.LastDiedAt.After(first.FirstDiedAt.Time) || groups.Items[1].Count != 5 {
		t.Errorf("%+v", groups.Items)
	}
	for want, filter := range map[int64]api.DeadLetterFilter{
		7: {Fingerprint: first.Fingerprint}, 2: {Queue: "elsewhere"}, 5: {Queue: "default", Reason: "exhausted"},
		3: {After: &first.FirstDiedAt, Before: &api.Time{Time: first.FirstDiedAt.Add(4 * time.Millisecond)}, Reason: "permanent"},
		0: {Type: "none"},
	} {
		found, err := f.Store.DeadLetters.Matching(t.Context(), f.Tenant, "", filter)
		got, err2 := f.Store.DeadLetters.DeadLetterGroups(t.Context(), f.Tenant, "", filter, 10)
		page, err3 := f.Store.DeadLetters.DeadLetters(t.Context(), f.Tenant, "", filter, 50, "")
		sum := int64(0)
		for _, group := range got.Items {
			sum += group.Count
		}
		if errors.Join(err, err2, err3) != nil || found.Matched != want || sum != want || int64(len(page.Items)) != want || got.Read != 14 {
			t.Errorf("%+v: %d matched, %d grouped, %d listed, want %d", filter, found.Matched, sum, len(page.Items), want)
		}
	}
	for whose, want := range map[string]int64{"bob": 5, "eve": 0} {
		if found, err := f.Store.DeadLetters.Matching(t.Context(), f.Tenant, whose, api.DeadLetterFilter{}); err != nil || found.Matched != want {
			t.Errorf("%s: %+v, %v", whose, found, err)
		}
	}
	if got, err := f.Store.DeadLetters.DeadLetterGroups(t.Context(), f.NewTenant(), "", api.DeadLetterFilter{}, 10); err != nil || got.Items == nil || len(got.Items) != 0 {
		t.Errorf("another tenant: %+v, %v", got, err)
	}
}

// More than are read: counts say so.
func TestDeadLetterGroupsAreBounded(t *testing.T) {
	celltest.Large(t, "TestDeadLetterGroups")
	t.Parallel()
	f := newFixture(t)
	f.AddDeadLetters(api.MaxDeadLetterRows+1, celltest.DeadLetterRows{})
	begun := time.Now()
	groups, err := f.Store.DeadLetters.DeadLetterGroups(t.Context(), f.Tenant, "", api.DeadLetterFilter{}, 10)
	if err != nil || !groups.ReadCapped || groups.Read != api.MaxDeadLetterRows || !groups.Items[0].CountCapped {
		t.Errorf("%+v, %v", groups, err)
	}
	t.Logf("grouped in %v", time.Since(begun))
	begun = time.Now()
	found, err := f.Store.DeadLetters.Matching(t.Context(), f.Tenant, "", api.DeadLetterFilter{})
	if err != nil || !found.MatchedCapped || found.Matched < api.MaxDeadLetterRows {
		t.Errorf("%+v, %v", found, err)
	}
	t.Logf("counted in %v", time.Since(begun))
}

func TestRedriveGivesAnotherLife(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	key, deadline := "k", time.Now().Add(time.Hour)
	ids := f.Submit(f.Job(func(j *submit.NewJob) { j.MaxAttempts, j.DedupeKey, j.Deadline = 1, &key, &deadline }), f.Job())
	first := f.ClaimOne()
	ending := jobs.Ending{Lease: first.Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "t", Message: "m"}}
	f.MustEnd(ending)
	f.Exec(`UPDATE dead_letters SET deadline = statement_timestamp() - interval '1 hour'`)

	dead, err := f.Store.DeadLetters.DeadLetters(t.Context(), f.Tenant, "", api.DeadLetterFilter{Reason: "exhausted"}, 10, "")
	if err != nil || len(dead.Items) != 1 || dead.Items[0].Error.Message != "m" || dead.Items[0].Attempts != 1 {
		t.Fatalf("%+v %v", dead, err)
	}
	blocker := f.Submit(f.Job(func(j *submit.NewJob) { j.DedupeKey = &key }))[0]
	if got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", ids, nil); !errors.Is(got[0].Err, deadletter.ErrDedupeConflict) || !errors.Is(got[1].Err, deadletter.ErrNotDead) {
		t.Fatalf("%+v", got)
	}
	if f.Count("dead_letters") != 1 {
		t.Fatal("a refused redrive lost the dead letter")
	}
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", blocker); err != nil {
		t.Fatal(err)
	}
	got := f.Store.DeadLetters.Redrive(t.Context(), f.Tenant, "", []uuid.UUID{ids[0], uuid.New(), ids[0]}, nil)
	if got[0].Err != nil || !errors.Is(got[1].Err, store.ErrNotFound) || !errors.Is(got[2].Err, deadletter.ErrNotDead) {
		t.Fatalf("%+v", got)
	}
	if j := got[0].Job; j.State != api.StateQueued || j.Attempt != 0 || j.Redrives != 1 || j.Epoch != 1 || j.Deadline != nil {
		t.Fatalf("%+v", j)
	}
	f.ClaimOne() // the second job
	again := f.ClaimOne()
	if again.ID != ids[0] || again.Epoch != 2 || again.Attempt != 1 {
		t.Fatalf("%+v", again)
	}
	if ended := f.End(ending); !errors.Is(ended.Err, jobs.ErrLeaseLost) {
		t.Errorf("the first life's holder: %+v", ended)
	}
	attempts, err := f.Store.JobReads.Attempts(t.Context(), f.Tenant, "", ids[0], 0, 50)
	if err != nil || len(attempts) != 2 || attempts[0].Kind != "failed" || attempts[0].Error.Message != "m" || attempts[1].Kind != "running" || attempts[1].Epoch != 2 {
		t.Fatalf("%+v %v", attempts, err)
	}
}
