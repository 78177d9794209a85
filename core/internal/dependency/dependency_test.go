package dependency_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func TestAChildWaitsForAllOfItsParents(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	first, second := f.one(), f.one()
	child := f.one(after(job.CancelChild, first, second))
	got := f.Get(child)
	if got.State != api.StateBlocked || got.BlockedBy == nil || *got.BlockedBy != 2 || len(got.After) != 2 || got.After[0].State != api.StateQueued {
		t.Fatalf("blocked job: %+v", got)
	}
	f.complete(first)
	if released := f.followUp(); len(released.Unblocked) != 0 {
		t.Fatalf("one of two parents has ended, and %+v", released)
	}
	f.complete(second)
	released := f.followUp()
	if len(released.Unblocked) != 1 || released.Unblocked[0].ID != child || released.Unblocked[0].Verdict.State != job.Queued {
		t.Fatalf("released %+v", released)
	}
	got = f.Get(child)
	if got.State != api.StateQueued || got.BlockedBy != nil || got.After[1].State != api.StateCompleted || got.After[1].OnFailed != api.OnFailedCancel {
		t.Fatalf("released job: %+v", got)
	}
	f.complete(child)
	f.verify()
	page, err := f.Store.JobReads.List(t.Context(), f.Tenant, api.JobFilter{}, 10, "")
	if err != nil || len(page.Items[0].After) != 2 || len(page.Items[1].After) != 0 {
		t.Fatalf("the list shows %+v, %v", page.Items, err)
	}
}

func TestAChildWithADelayIsScheduledWhenItIsReleased(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	child := f.one(after(job.CancelChild, parent), func(j *submit.NewJob) { j.Delay = time.Hour })
	f.complete(parent)
	f.followUp()
	f.wantState(child, api.StateScheduled)
}

// ends are the ways in which a parent ends without completing.
var ends = map[string]struct {
	change func(*submit.NewJob)
	end    func(f *fixture, id uuid.UUID)
	state  job.State
}{
	"permanent failure": {end: (*fixture).kill, state: job.DeadLetter},
	"attempts used up": {
		change: func(j *submit.NewJob) { j.MaxAttempts = 1 },
		end: func(f *fixture, id uuid.UUID) {
			f.MustEnd(jobs.Ending{Lease: f.lease(id).Lease(), Kind: api.KindFail, Error: &api.JobError{Type: "e"}})
		}, state: job.DeadLetter,
	},
	"worker lost": {
		change: func(j *submit.NewJob) { j.MaxAttempts = 1 },
		end: func(f *fixture, id uuid.UUID) {
			f.lease(id)
			f.Expire(id)
			f.Reap()
		}, state: job.DeadLetter,
	},
	"deadline while it waits": {change: dueLater, end: func(f *fixture, _ uuid.UUID) { f.expireDeadlines() }, state: job.DeadLetter},
	"deadline while it runs": {change: dueLater, end: func(f *fixture, id uuid.UUID) {
		f.lease(id)
		f.expireDeadlines()
	}, state: job.DeadLetter},
	"cancel while it waits": {end: (*fixture).cancel, state: job.Cancelled},
	"cancel while it runs": {end: func(f *fixture, id uuid.UUID) {
		lease := f.lease(id).Lease()
		f.cancel(id)
		f.MustEnd(jobs.Ending{Lease: lease, Kind: api.KindRelease})
	}, state: job.Cancelled},
}

func wantAfter(parent job.State, policy job.OnFailed) string {
	switch {
	case policy == job.RunChild:
		return api.StateQueued
	case policy == job.HoldChild && parent == job.DeadLetter:
		return api.StateBlocked
	default:
		return api.StateCancelled
	}
}

func TestEveryEndOfAParentReachesItsChildren(t *testing.T) {
	t.Parallel()
	for name, one := range ends {
		for _, policy := range []job.OnFailed{job.CancelChild, job.RunChild, job.HoldChild} {
			t.Run(name+", "+string(policy), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				change := one.change
				if change == nil {
					change = func(*submit.NewJob) {}
				}
				parent := f.one(change)
				before := f.one(after(policy, parent))
				grandchild := f.one(after(job.CancelChild, before))
				one.end(f, parent)
				f.wantState(parent, string(one.state))
				later := f.one(after(policy, parent)) // the parent counts as it ended
				f.followUp()
				want := wantAfter(one.state, policy)
				f.wantState(before, want)
				f.wantState(later, want)
				if want == api.StateCancelled {
					f.wantState(grandchild, api.StateCancelled)
					if failure := f.Get(before).LastError; failure == nil || failure.Type != api.ErrorParentFailed || !strings.Contains(failure.Message, parent.String()) {
						t.Errorf("the cancelled child says %+v", failure)
					}
				} else {
					f.wantState(grandchild, api.StateBlocked)
				}
				f.verify()
			})
		}
	}
}

func TestAHeldChildGoesOnAfterARedrive(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	child := f.one(after(job.HoldChild, parent))
	f.kill(parent)
	f.followUp()
	f.redrive(parent)
	f.kill(parent)
	f.followUp()
	f.wantState(child, api.StateBlocked)
	f.redrive(parent)
	f.complete(parent)
	f.followUp()
	f.wantState(child, api.StateQueued)
	f.verify()
}

func TestADeletedDeadLetterCancelsTheChildrenThatItHolds(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(f *fixture, id uuid.UUID){
		"discard": func(f *fixture, id uuid.UUID) {
			if _, err := f.Store.DeadLetters.Discard(f.Context(), f.Tenant, "", []uuid.UUID{id}); err != nil {
				f.Fatal(err)
			}
		},
		"delete": func(f *fixture, id uuid.UUID) {
			if _, err := f.Store.EndedJobs.Delete(f.Context(), f.Tenant, "", id); err != nil {
				f.Fatal(err)
			}
		},
		"discard by filter": func(f *fixture, _ uuid.UUID) {
			made := f.Redrive(api.ActionDiscard, api.DeadLetterFilter{}, nil)
			if _, err := f.Store.DeadLetters.StepRedrive(f.Context(), uuid.MustParse(made.ID), nil, nil, 0.5); err != nil {
				f.Fatal(err)
			}
		},
		"retention": func(f *fixture, _ uuid.UUID) {
			f.Exec(`UPDATE dead_letters SET died_at = died_at - interval '40 days'`)
			if n, err := openWithRetention(f).DeadLetters.ForgetDead(f.Context(), 10); n != 1 || err != nil {
				f.Fatal(n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			parent := f.one()
			child := f.one(after(job.HoldChild, parent))
			f.kill(parent)
			f.followUp()
			late := f.one(after(job.HoldChild, parent))
			remove(f, parent)
			f.followUp()
			f.wantState(child, api.StateCancelled)
			f.wantState(late, api.StateCancelled)
			f.verify()
		})
	}
}

func TestAnEarlierDeathDoesNotReachAChildOfARedrivenParent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	first := f.one(after(job.CancelChild, parent))
	f.kill(parent) // its follow-up waits
	f.redrive(parent)
	second := f.one(after(job.CancelChild, parent))
	f.followUp()
	f.wantState(first, api.StateCancelled)
	f.wantState(second, api.StateBlocked)
	f.complete(parent)
	f.followUp()
	f.wantState(second, api.StateQueued)
	f.verify()
}

func TestAFollowUpWaitsForTheEarlierOneOfItsJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	child := f.one(after(job.CancelChild, parent))
	f.kill(parent)
	f.redrive(parent)
	f.complete(parent)
	tx, err := f.Direct.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT FROM follow_ups WHERE state = 'dead_letter' FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	f.followUp() // the death is another core's
	f.wantState(child, api.StateBlocked)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.followUp()
	f.wantState(child, api.StateCancelled)
	f.verify()
}

func TestARedrivenChildWaitsAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	open, done := f.one(), f.one()
	child := f.one(after(job.CancelChild, open, done), dueLater)
	f.expireDeadlines()
	f.followUp()
	f.wantState(child, api.StateDeadLetter)
	f.lease(open)
	f.complete(done)
	f.followUp()
	if again := f.redrive(child); again.State != api.StateBlocked {
		t.Fatalf("redriven: %+v", again)
	}
	if got := f.Get(child); *got.BlockedBy != 1 {
		t.Fatalf("it waits for %d", *got.BlockedBy)
	}
	f.cancel(child)
	f.wantState(child, api.StateCancelled)
	f.Exec(`DELETE FROM follow_ups`)
}

// A child that died while it waited, and whose parent died after it, waits for the parent again once both are
// redriven, in one call or in two, whatever its policy.
func TestARedrivenChildWaitsForItsRedrivenParent(t *testing.T) {
	t.Parallel()
	for _, policy := range []job.OnFailed{job.CancelChild, job.RunChild, job.HoldChild} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, follow-up late %v", policy, late), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				parent := f.one()
				child := f.one(after(policy, parent), dueLater)
				f.expireDeadlines()
				f.followUp()
				f.kill(parent)
				if !late {
					f.followUp()
				}
				for _, one := range f.Store.DeadLetters.Redrive(f.Context(), f.Tenant, "", []uuid.UUID{child, parent}, nil) {
					if one.Err != nil {
						t.Fatal(one.Err)
					}
				}
				f.followUp()
				f.wantState(child, api.StateBlocked)
				f.complete(parent)
				f.followUp()
				f.wantState(child, api.StateQueued)
				f.complete(child)
				f.followUp()
				f.verify()
			})
		}
	}
}

// A redriven child whose dead parent stays a dead letter runs, waits or is cancelled by its policy, and a
// parent's later life counts like the first.
func TestARedrivenChildOfADeadParent(t *testing.T) {
	t.Parallel()
	setup := func(t *testing.T, policy job.OnFailed) (f *fixture, parent, child uuid.UUID) {
		f = newFixture(t)
		parent = f.one()
		child = f.one(after(policy, parent), dueLater)
		f.expireDeadlines()
		f.followUp()
		f.kill(parent)
		f.followUp()
		return f, parent, child
	}
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		f, _, child := setup(t, job.RunChild)
		f.redrive(child)
		f.complete(child)
		f.verify()
	})
	t.Run("cancel, the parent is discarded", func(t *testing.T) {
		t.Parallel()
		f, parent, child := setup(t, job.CancelChild)
		f.redrive(child)
		f.wantState(child, api.StateBlocked)
		if _, err := f.Store.DeadLetters.Discard(t.Context(), f.Tenant, "", []uuid.UUID{parent}); err != nil {
			t.Fatal(err)
		}
		f.followUp()
		f.wantState(child, api.StateCancelled)
		f.verify()
	})
	t.Run("cancel, the parent was discarded before", func(t *testing.T) {
		t.Parallel()
		f, parent, child := setup(t, job.CancelChild)
		if _, err := f.Store.DeadLetters.Discard(t.Context(), f.Tenant, "", []uuid.UUID{parent}); err != nil {
			t.Fatal(err)
		}
		f.followUp()
		f.redrive(child)
		f.complete(child)
		f.verify()
	})
	t.Run("cancel, the parent dies again", func(t *testing.T) {
		t.Parallel()
		f, parent, child := setup(t, job.CancelChild)
		f.redrive(child)
		f.redrive(parent)
		f.kill(parent)
		f.followUp()
		f.wantState(child, api.StateCancelled)
		f.verify()
	})
}

func TestAnUnknownParentIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own := f.one(func(j *submit.NewJob) { j.User = new("bob") })
	other := newTenantJob(f)
	capped := f.Job(after(job.CancelChild, uuid.Must(uuid.NewV7()), own, other))
	answers := f.TrySubmit(
		submit.Submission{Tenant: f.Tenant, Jobs: []submit.NewJob{capped}},
		submit.Submission{Tenant: f.Tenant, User: "alice", Jobs: []submit.NewJob{f.Job(after(job.CancelChild, own))}},
		submit.Submission{Tenant: f.Tenant, User: "bob", Jobs: []submit.NewJob{f.Job(after(job.CancelChild, own))}},
		submit.Submission{Tenant: f.Tenant, Batch: true, Jobs: []submit.NewJob{f.Job(), f.Job(after(job.CancelChild, other))}},
	)
	var fields []string
	for _, field := range answers[0].Problem.Errors {
		fields = append(fields, field.Field)
	}
	if answers[0].Problem.Code != problem.InvalidRequest || !slices.Equal(fields, []string{"after[0]", "after[2]"}) {
		t.Errorf("unknown and foreign: %+v", answers[0].Problem)
	}
	if answers[1].Problem == nil || answers[2].Problem != nil {
		t.Errorf("another user's: %+v; the own user's: %+v", answers[1].Problem, answers[2].Problem)
	}
	if results := answers[3].Jobs; results[0].Refused != nil || results[1].Refused == nil {
		t.Errorf("batch: %+v", results)
	}
	if n := f.Count("dependencies"); n != 1 {
		t.Errorf("%d edges are stored, want 1", n)
	}
	shown, err := f.Store.JobReads.Get(t.Context(), f.Tenant, "", answers[2].Jobs[0].Row.ID)
	if err != nil || len(shown.After) != 1 {
		t.Fatal(shown, err)
	}
}

// A job waits for ever if its parent has ended and no follow-up says so. One that a dead letter holds waits as it should.
func TestVerifyFindsAnEndWithoutAFollowUp(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	done, dead, cancelled := f.one(), f.one(), f.one()
	f.one(after(job.CancelChild, done))
	f.one(after(job.CancelChild, dead))
	held := f.one(after(job.HoldChild, dead))
	f.one(after(job.RunChild, cancelled))
	f.complete(done)
	f.kill(dead)
	f.cancel(cancelled)
	if lines, err := f.Store.Dependencies.VerifyDependencies(t.Context()); err != nil || len(lines) != 0 {
		t.Errorf("with follow-ups: %q, %v", lines, err)
	}
	f.Exec(`DELETE FROM follow_ups`)
	lines, err := f.Store.Dependencies.VerifyDependencies(t.Context())
	if err != nil || len(lines) != 3 {
		t.Fatalf("verify: %q, %v", lines, err)
	}
	for _, line := range lines {
		if !strings.HasSuffix(line, ", which has ended") || strings.Contains(line, held.String()) {
			t.Error(line)
		}
	}
}

func TestVerifyFindsWhatMustNotBe(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.one(after(job.CancelChild, f.one()))
	f.Exec(`UPDATE dependencies SET resolved_at = now()`)
	f.Exec(`INSERT INTO follow_ups (tenant_id, job_id, state, redrives, ended_at) VALUES ($1, $2, 'completed', 0, now() - interval '2 minutes')`, f.Tenant, uuid.New())
	lines, err := f.Store.Dependencies.VerifyDependencies(t.Context())
	if err != nil || len(lines) != 2 || !strings.Contains(lines[0], "waits for no job") || !strings.Contains(lines[1], "old") {
		t.Errorf("verify: %q, %v", lines, err)
	}
}

// The same submit again, after the retention of its parent: a live job has the dedupe_key, and is the answer.
func TestADedupeKeyFindsItsJobAfterTheParentIsGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	f.complete(parent)
	again := func() submit.Submission {
		return submit.Submission{Tenant: f.Tenant, Batch: true, Jobs: []submit.NewJob{
			f.Job(after(job.CancelChild, parent), func(j *submit.NewJob) { j.DedupeKey = new("k") }),
			f.Job(after(job.CancelChild, parent), func(j *submit.NewJob) { j.DedupeKey = new("free") }),
		}}
	}
	capped := again()
	capped.Jobs[0].Caps = []caps.Cap{f.ActiveCap(1)}
	first := again()
	first.Jobs = first.Jobs[:1]
	live := f.TrySubmit(first)[0].Jobs[0].Row.ID
	f.Exec(`DELETE FROM finished_jobs`)
	for name, submission := range map[string]submit.Submission{"plain": again(), "under a cap": capped} {
		results := f.TrySubmit(submission)[0].Jobs
		if one := results[0]; one.Refused != nil || !one.Deduplicated || one.Row.ID != live {
			t.Errorf("%s: %+v, want job %s", name, one, live)
		}
		if results[1].Refused == nil {
			t.Errorf("%s: a job after one that is gone, with a key of its own, is accepted", name)
		}
	}
}

func TestEdgesAreForgottenWithTheirJob(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.one()
	f.one(after(job.CancelChild, parent))
	gone := f.one(after(job.CancelChild, parent))
	f.cancel(gone)
	f.Exec(`DELETE FROM finished_jobs`)
	forgotten := func(retention time.Duration) (n int) {
		var place dependency.EdgePlace
		for {
			batch, err := f.Store.Dependencies.ForgetEdges(t.Context(), retention, place, 1)
			if err != nil {
				t.Fatal(err)
			}
			n += batch.Forgotten
			if place = batch.Next(); batch.Seen == 0 {
				return n
			}
		}
	}
	if n := forgotten(time.Hour); n != 0 {
		t.Errorf("%d edges of new jobs are forgotten", n)
	}
	if n := forgotten(-time.Hour); n != 1 || f.Count("dependencies") != 1 {
		t.Errorf("%d edges are forgotten, %d are left, want 1 and 1", n, f.Count("dependencies"))
	}
}

func TestFanOutAndFanIn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const width = 1000
	root := f.one()
	middle := make([]submit.NewJob, width)
	for i := range middle {
		middle[i] = f.Job(after(job.CancelChild, root))
	}
	f.TrySubmit(submit.Submission{Tenant: f.Tenant, Batch: true, Jobs: middle})
	var joins []uuid.UUID // of 100 parents each, and one of those
	for from := 0; from < width; from += 100 {
		joins = append(joins, f.one(func(j *submit.NewJob) {
			for _, m := range middle[from : from+100] {
				after(job.CancelChild, m.ID)(j)
			}
		}))
	}
	last := f.one(after(job.CancelChild, joins...))
	f.complete(root)
	if released := f.followUp(); len(released.Unblocked) != width {
		t.Fatalf("%d jobs are released, want %d", len(released.Unblocked), width)
	}
	finish := func(want int) {
		t.Helper()
		claimed := f.Claim(width, time.Minute)
		if len(claimed) != want {
			t.Fatalf("%d jobs can be claimed, want %d", len(claimed), want)
		}
		endings := make([]jobs.Ending, len(claimed))
		for i := range claimed {
			endings[i] = jobs.Ending{Lease: claimed[i].Lease(), Kind: api.KindComplete}
		}
		f.Store.Jobs.End(t.Context(), endings)
		f.followUp()
	}
	finish(width)
	finish(len(joins))
	f.complete(last)
	f.verify()
}

func newTenantJob(f *fixture) uuid.UUID {
	f.Helper()
	other := f.NewTenant()
	lane := f.NewLane(other, "default")
	made := f.Job()
	made.Lane = lane.ID
	f.TrySubmit(submit.Submission{Tenant: other, Jobs: []submit.NewJob{made}})
	return made.ID
}
