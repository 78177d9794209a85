package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/shared/api"
)

// long is a wait that no test wants to see the end of.
const long = 25 * time.Second

func (f *fixture) waitCall(queues ...string) dispatch.ClaimCall {
	call := f.claimCall(queues...)
	call.Max, call.Wait = 1, long
	return call
}

// Nothing polls here: Run does not run.
func TestASubmitWakesAParkedClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	waiting := f.park(t.Context(), f.waitCall())[0]
	id := f.submit(plain())[0]
	if got := <-waiting; len(got.jobs) != 1 || got.jobs[0].ID != id || got.err != nil {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
	if f.d.ParkedClaims() != 0 {
		t.Error("a claim is still parked")
	}
}

// A lane that the submit itself creates wakes as well.
func TestTheFirstJobOfALaneWakesAParkedClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waiting := f.goClaim(t.Context(), f.waitCall("brand-new"))
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	f.submit(in("brand-new"))
	if got := <-waiting; len(got.jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}

func TestOutcomesWakeParkedClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.submit(plain())
	for _, ending := range []jobs.Ending{{Kind: api.KindRelease}, {Kind: api.KindSnooze}} {
		taken := f.claim(f.claimCall())
		waiting := f.park(t.Context(), f.waitCall())[0]
		ending.Lease = taken[0].Lease()
		if ended := f.d.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
			t.Fatal(ended.Err)
		}
		got := <-waiting
		if len(got.jobs) != 1 || got.jobs[0].Attempt != 1 {
			t.Fatalf("after %s: %+v, %v", ending.Kind, got.jobs, got.err)
		}
		f.d.GiveBack(t.Context(), got.jobs)
	}
}

func TestAJobStoredElsewhereIsFoundByThePollOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	other := f.newCore(celltest.OpenURL(t, f.url)) // its hints have no receiver
	elsewhere := func(request api.SubmitRequest) {
		t.Helper()
		f.accepted(other.Submit(t.Context(), []dispatch.SubmitCall{f.call(request)})...)
	}
	short := f.waitCall()
	short.Wait = 600 * time.Millisecond
	waiting := f.park(t.Context(), short)[0]
	elsewhere(plain())
	if got := <-waiting; len(got.jobs) != 0 || got.err != nil {
		t.Fatalf("without a poll the claim got %+v, %v", got.jobs, got.err)
	}
	f.claim(f.claimCall())

	f.run()
	waiting = f.goClaim(t.Context(), f.waitCall())
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	start := time.Now()
	elsewhere(plain())
	if got := <-waiting; len(got.jobs) != 1 || time.Since(start) > 5*time.Second {
		t.Errorf("claim = %+v, %v after %v", got.jobs, got.err, time.Since(start))
	}
	// nor does a lane that another core created stay unknown
	waiting = f.goClaim(t.Context(), f.waitCall("new"))
	elsewhere(in("new"))
	if got := <-waiting; len(got.jobs) != 1 {
		t.Errorf("from a new lane: %+v, %v", got.jobs, got.err)
	}
}

func TestAHintFromAnotherCoreWakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	other := f.newCore(celltest.OpenURL(t, f.url))
	waiting := f.park(t.Context(), f.waitCall())[0]
	answers := other.Submit(t.Context(), []dispatch.SubmitCall{f.call(plain())})
	f.accepted(answers...)
	f.d.WakeHere([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}})
	if got := <-waiting; len(got.jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}

func TestTheWaitEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	call := f.waitCall()
	call.Wait = 50 * time.Millisecond
	got := <-f.goClaim(t.Context(), call)
	if len(got.jobs) != 0 || got.err != nil || got.took < call.Wait {
		t.Errorf("claim = %+v, %v after %v", got.jobs, got.err, got.took)
	}
	ctx, leave := context.WithCancel(t.Context())
	waiting := f.goClaim(ctx, f.waitCall())
	celltest.Eventually(t, "the claim to park", func() bool { return f.d.ParkedClaims() == 1 })
	leave()
	if got := <-waiting; !errors.Is(got.err, context.Canceled) {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
	if f.d.ParkedClaims() != 0 {
		t.Error("a claim is still parked")
	}
}

func TestDrainEndsEveryWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	waiting := f.park(t.Context(), f.waitCall(), f.waitCall(), f.waitCall())
	f.d.Drain()
	f.d.Drain() // twice is once
	for _, w := range waiting {
		if got := <-w; len(got.jobs) != 0 || got.err != nil {
			t.Errorf("claim = %+v, %v", got.jobs, got.err)
		}
	}
	// from now on as well; but what is there is still taken
	if got := <-f.goClaim(t.Context(), f.waitCall()); len(got.jobs) != 0 || got.err != nil {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
	f.submit(plain())
	if got := <-f.goClaim(t.Context(), f.waitCall()); len(got.jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}

func TestEveryJobFindsAWaitingClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	calls := make([]dispatch.ClaimCall, 5)
	for i := range calls {
		calls[i] = f.waitCall()
	}
	waiting := f.park(t.Context(), calls...)
	f.submit(plain(), plain(), plain(), plain(), plain())
	taken := map[uuid.UUID]bool{}
	for _, w := range waiting {
		got := <-w
		for _, job := range got.jobs {
			taken[job.ID] = true
		}
	}
	if len(taken) != len(calls) {
		t.Errorf("%d jobs were taken by %d claims", len(taken), len(calls))
	}
}

// The claim that is woken may take another job than the one that it was woken
// for. That one must not wait for a poll while another claim waits for it.
func TestAWakeUpForAJobNotTakenIsPassedOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(in("a"))
	f.lane(in("b"))
	urgent := in("a")
	urgent.Priority = new(9)
	for range 8 { // which of the two jobs wakes first is left to chance
		waiting := f.park(t.Context(), f.waitCall("a", "b"))[0]
		second := f.park(t.Context(), f.waitCall("b"))[0]
		f.submit(urgent, in("b"))
		for _, w := range []<-chan answer{waiting, second} {
			select {
			case got := <-w:
				if len(got.jobs) != 1 {
					t.Fatalf("claim = %+v, %v", got.jobs, got.err)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("a claim sleeps although there is a job that it could take")
			}
		}
	}
}

// Claims come and go while jobs are stored: none may be left over while a claim
// waits, although nothing polls.
func TestNoWakeUpIsLostWhenClaimsLeave(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	for range 10 {
		ctx, leave := context.WithCancel(t.Context())
		leaving := f.park(ctx, f.waitCall(), f.waitCall())
		staying := f.park(t.Context(), f.waitCall())[0]
		gone := make(chan struct{})
		go func() { defer close(gone); leave() }()
		f.submit(plain())
		<-gone
		taken := 0
		for _, w := range leaving {
			taken += len((<-w).jobs)
		}
		if taken > 0 { // it was faster than its leaving; the stayer gets another job
			f.submit(plain())
		}
		select {
		case got := <-staying:
			if len(got.jobs) != 1 {
				t.Fatalf("claim = %+v, %v", got.jobs, got.err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the wake-up went away with a claim that left")
		}
		f.exec(`DELETE FROM jobs`)
	}
}

// All lists are notified before a claim is woken: it takes the highest priority, however many lists
// come before it in a hint.
func TestAHintOfManyListsWakesAfterTheLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.lane(plain())
	other := f.newCore(celltest.OpenURL(t, f.url)) // its hints have no receiver
	waiting := f.park(t.Context(), f.waitCall())[0]
	low, high := plain(), plain()
	low.Priority, high.Priority = new(0), new(api.MaxPriority)
	answers := other.Submit(t.Context(), []dispatch.SubmitCall{f.call(low), f.call(high)})
	f.accepted(answers...)
	hint := slices.Repeat([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}}, 10_000)
	f.d.WakeHere(append(hint, jobs.Waiting{Ready: answers[1].Ready[0], Jobs: 1}))
	if got := <-waiting; len(got.jobs) != 1 || got.jobs[0].Priority != api.MaxPriority {
		t.Errorf("claim = %+v, %v", got.jobs, got.err)
	}
}
