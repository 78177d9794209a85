package claims_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/claims"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Nothing polls here: Run does not run.
func TestASubmitWakesAParkedClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	waiting := f.Park(t.Context(), f.WaitCall())[0]
	id := f.Submit(enginetest.Plain())[0]
	if got := <-waiting; len(got.Jobs) != 1 || got.Jobs[0].ID != id || got.Err != nil {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
	if f.D.ParkedClaims() != 0 {
		t.Error("a claim is still parked")
	}
}

// A lane that the submit itself creates wakes as well.
func TestTheFirstJobOfALaneWakesAParkedClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	waiting := f.GoClaim(t.Context(), f.WaitCall("brand-new"))
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	f.Submit(enginetest.In("brand-new"))
	if got := <-waiting; len(got.Jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}

func TestOutcomesWakeParkedClaims(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Submit(enginetest.Plain())
	for _, ending := range []jobs.Ending{{Kind: api.KindRelease}, {Kind: api.KindSnooze}} {
		taken := f.Claim(f.ClaimCall())
		waiting := f.Park(t.Context(), f.WaitCall())[0]
		ending.Lease = taken[0].Lease()
		if ended := f.D.End(t.Context(), []jobs.Ending{ending})[0]; ended.Err != nil {
			t.Fatal(ended.Err)
		}
		got := <-waiting
		if len(got.Jobs) != 1 || got.Jobs[0].Attempt != 1 {
			t.Fatalf("after %s: %+v, %v", ending.Kind, got.Jobs, got.Err)
		}
		f.D.GiveBack(t.Context(), got.Jobs)
	}
}

func TestAJobStoredElsewhereIsFoundByThePollOnly(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	other := f.NewCore(celltest.OpenURL(t, f.URL)) // its hints have no receiver
	elsewhere := func(request api.SubmitRequest) {
		t.Helper()
		f.Accepted(other.Submit(t.Context(), []submits.Call{f.Call(request)})...)
	}
	short := f.WaitCall()
	short.Wait = 600 * time.Millisecond
	waiting := f.Park(t.Context(), short)[0]
	elsewhere(enginetest.Plain())
	if got := <-waiting; len(got.Jobs) != 0 || got.Err != nil {
		t.Fatalf("without a poll the claim got %+v, %v", got.Jobs, got.Err)
	}
	f.Claim(f.ClaimCall())

	f.Run()
	waiting = f.GoClaim(t.Context(), f.WaitCall())
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	start := time.Now()
	elsewhere(enginetest.Plain())
	if got := <-waiting; len(got.Jobs) != 1 || time.Since(start) > 5*time.Second {
		t.Errorf("claim = %+v, %v after %v", got.Jobs, got.Err, time.Since(start))
	}
	// nor does a lane that another core created stay unknown
	waiting = f.GoClaim(t.Context(), f.WaitCall("new"))
	elsewhere(enginetest.In("new"))
	if got := <-waiting; len(got.Jobs) != 1 {
		t.Errorf("from a new lane: %+v, %v", got.Jobs, got.Err)
	}
}

func TestAHintFromAnotherCoreWakes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	other := f.NewCore(celltest.OpenURL(t, f.URL))
	waiting := f.Park(t.Context(), f.WaitCall())[0]
	answers := other.Submit(t.Context(), []submits.Call{f.Call(enginetest.Plain())})
	f.Accepted(answers...)
	f.D.WakeHere([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}})
	if got := <-waiting; len(got.Jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}

func TestTheWaitEnds(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	call := f.WaitCall()
	call.Wait = 50 * time.Millisecond
	got := <-f.GoClaim(t.Context(), call)
	if len(got.Jobs) != 0 || got.Err != nil || got.Took < call.Wait {
		t.Errorf("claim = %+v, %v after %v", got.Jobs, got.Err, got.Took)
	}
	ctx, leave := context.WithCancel(t.Context())
	waiting := f.GoClaim(ctx, f.WaitCall())
	celltest.Eventually(t, "the claim to park", func() bool { return f.D.ParkedClaims() == 1 })
	leave()
	if got := <-waiting; !errors.Is(got.Err, context.Canceled) {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
	if f.D.ParkedClaims() != 0 {
		t.Error("a claim is still parked")
	}
}

func TestDrainEndsEveryWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	waiting := f.Park(t.Context(), f.WaitCall(), f.WaitCall(), f.WaitCall())
	f.D.Drain()
	f.D.Drain() // twice is once
	for _, w := range waiting {
		if got := <-w; len(got.Jobs) != 0 || got.Err != nil {
			t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
		}
	}
	// from now on as well; but what is there is still taken
	if got := <-f.GoClaim(t.Context(), f.WaitCall()); len(got.Jobs) != 0 || got.Err != nil {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
	f.Submit(enginetest.Plain())
	if got := <-f.GoClaim(t.Context(), f.WaitCall()); len(got.Jobs) != 1 {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}

func TestEveryJobFindsAWaitingClaim(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	calls := make([]claims.Call, 5)
	for i := range calls {
		calls[i] = f.WaitCall()
	}
	waiting := f.Park(t.Context(), calls...)
	f.Submit(enginetest.Plain(), enginetest.Plain(), enginetest.Plain(), enginetest.Plain(), enginetest.Plain())
	taken := map[uuid.UUID]bool{}
	for _, w := range waiting {
		got := <-w
		for _, job := range got.Jobs {
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
	f.Lane(enginetest.In("a"))
	f.Lane(enginetest.In("b"))
	urgent := enginetest.In("a")
	urgent.Priority = new(9)
	for range 8 { // which of the two jobs wakes first is left to chance
		waiting := f.Park(t.Context(), f.WaitCall("a", "b"))[0]
		second := f.Park(t.Context(), f.WaitCall("b"))[0]
		f.Submit(urgent, enginetest.In("b"))
		for _, w := range []<-chan enginetest.Answer{waiting, second} {
			select {
			case got := <-w:
				if len(got.Jobs) != 1 {
					t.Fatalf("claim = %+v, %v", got.Jobs, got.Err)
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
	f.Lane(enginetest.Plain())
	for range 10 {
		ctx, leave := context.WithCancel(t.Context())
		leaving := f.Park(ctx, f.WaitCall(), f.WaitCall())
		staying := f.Park(t.Context(), f.WaitCall())[0]
		gone := make(chan struct{})
		go func() { defer close(gone); leave() }()
		f.Submit(enginetest.Plain())
		<-gone
		taken := 0
		for _, w := range leaving {
			taken += len((<-w).Jobs)
		}
		if taken > 0 { // it was faster than its leaving; the stayer gets another job
			f.Submit(enginetest.Plain())
		}
		select {
		case got := <-staying:
			if len(got.Jobs) != 1 {
				t.Fatalf("claim = %+v, %v", got.Jobs, got.Err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the wake-up went away with a claim that left")
		}
		f.Exec(`DELETE FROM jobs`)
	}
}

// All lists are notified before a claim is woken: it takes the highest priority, however many lists
// come before it in a hint.
func TestAHintOfManyListsWakesAfterTheLast(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Lane(enginetest.Plain())
	other := f.NewCore(celltest.OpenURL(t, f.URL)) // its hints have no receiver
	waiting := f.Park(t.Context(), f.WaitCall())[0]
	low, high := enginetest.Plain(), enginetest.Plain()
	low.Priority, high.Priority = new(0), new(api.MaxPriority)
	answers := other.Submit(t.Context(), []submits.Call{f.Call(low), f.Call(high)})
	f.Accepted(answers...)
	hint := slices.Repeat([]jobs.Waiting{{Ready: answers[0].Ready[0], Jobs: 1}}, 10_000)
	f.D.WakeHere(append(hint, jobs.Waiting{Ready: answers[1].Ready[0], Jobs: 1}))
	if got := <-waiting; len(got.Jobs) != 1 || got.Jobs[0].Priority != api.MaxPriority {
		t.Errorf("claim = %+v, %v", got.Jobs, got.Err)
	}
}
