package submits_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// parent is a job that runs.
func (f *fixture) parent(change ...func(*api.SubmitRequest)) claim.Job {
	f.Helper()
	request := api.SubmitRequest{Type: "parent"}
	for _, c := range change {
		c(&request)
	}
	f.Submit(request)
	call := f.ClaimCall(cmp.Or(request.Queue, api.DefaultQueue))
	call.Types = []string{request.Type}
	return f.Claim(call)[0]
}

func (f *fixture) chain(core *enginetest.Core, parent claim.Job, children ...api.SubmitRequest) jobs.Ended {
	ending := enginetest.Endings([]claim.Job{parent})[0]
	ending.Kind, ending.Submit = api.KindComplete, store.JSON(children)
	call := submits.Call{Tenant: f.Tenant, Jobs: children}
	for range children {
		call.IDs = append(call.IDs, uuid.Must(uuid.NewV7()))
	}
	return core.Chain(context.WithoutCancel(f.Context()), ending, call, nil, "")
}

func (f *fixture) children() int {
	f.Helper()
	return f.Count(`SELECT count(*) FROM jobs WHERE type = 'child'`)
}

func child(change ...func(*api.SubmitRequest)) api.SubmitRequest {
	made := api.SubmitRequest{Type: "child"}
	for _, c := range change {
		c(&made)
	}
	return made
}

// An outcome and the jobs that it submits are one: a repeat gets the same ids, another body is a conflict, and a stale holder
// submits nothing.
func TestAChainIsOne(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	parent := f.parent()
	first := f.chain(f.D, parent, child(), child(), child())
	if first.Err != nil || first.Outcome.State != api.StateCompleted || len(first.Outcome.Submitted) != 3 || f.children() != 3 {
		t.Fatalf("%+v, %d children", first, f.children())
	}
	for _, id := range first.Outcome.Submitted {
		if got := f.Get(uuid.MustParse(id)); got.Type != "child" || got.State != api.StateQueued {
			t.Errorf("%+v", got)
		}
	}
	again := f.chain(f.D, parent, child(), child(), child())
	if again.Err != nil || !again.Replayed || !slices.Equal(again.Outcome.Submitted, first.Outcome.Submitted) || again.Outcome.Attempt != 1 || f.children() != 3 {
		t.Errorf("%+v, %d children", again, f.children())
	}
	if other := f.chain(f.D, parent, child()); !errors.Is(other.Err, jobs.ErrOutcomeConflict) {
		t.Errorf("another body: %v", other.Err)
	}
	stale := f.parent()
	f.Exec(`UPDATE jobs SET epoch = epoch + 1, lease_id = gen_random_uuid() WHERE id = $1`, stale.ID)
	if lost := f.chain(f.D, stale, child()); !errors.Is(lost.Err, jobs.ErrLeaseLost) || f.children() != 3 {
		t.Errorf("a stale holder: %v, %d children", lost.Err, f.children())
	}
}

// Where a job is refused, nothing is stored, the lease stays, and the refusal names the job.
func TestARefusedChainLeavesTheLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Put("full", api.QueueRequest{MaxActive: new(int64(1))})
	parent := f.parent()
	to := func(r *api.SubmitRequest) { r.Queue = "full" }
	refused := f.chain(f.D, parent, child(to), child(to))
	p, ok := problem.From(refused.Err)
	if !ok || p.Code != problem.QueueFull || len(p.Errors) != 1 || p.Errors[0].Field != "submit[1]" || f.children() != 0 {
		t.Fatalf("%v, %d children", refused.Err, f.children())
	}
	unknown := f.chain(f.D, parent, child(func(r *api.SubmitRequest) { r.Costs = api.Amounts{"none": 1} }))
	if p, ok := problem.From(unknown.Err); !ok || p.Code != problem.InvalidRequest || len(p.Errors) != 1 || p.Errors[0].Field != "submit[0].costs.none" {
		t.Errorf("%v", unknown.Err)
	}
	if f.Get(parent.ID).State != api.StateRunning {
		t.Error("the lease has gone")
	}
	if ended := f.chain(f.D, parent, child(to)); ended.Err != nil || f.children() != 1 {
		t.Errorf("%v, %d children", ended.Err, f.children())
	}
}

// The completed job leaves room for the one that follows it, and one whose dedupe_key a live job has is that job.
func TestAChainTakesTheParentsPlace(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Put("narrow", api.QueueRequest{MaxActive: new(int64(1))})
	in := func(r *api.SubmitRequest) { r.Queue = "narrow" }
	parent := f.parent(in)
	if ended := f.chain(f.D, parent, child(in)); ended.Err != nil {
		t.Fatal(ended.Err)
	}
	deduped := func(r *api.SubmitRequest) { r.DedupeKey = new("one") }
	live := f.Submit(child(deduped))[0]
	ended := f.chain(f.D, f.parent(), child(), child(deduped))
	if ended.Err != nil || ended.Outcome.Submitted[1] != live.String() {
		t.Fatalf("%+v", ended)
	}
}

// Of many holders that report at the same time through two cores, each chain is stored once.
func TestChainsAreStoredOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	other := f.NewCore(f.Store)
	if err := other.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	const parents = 30
	var all sync.WaitGroup
	for range parents {
		parent := f.parent()
		for _, core := range []*enginetest.Core{f.D, other, f.D, other} {
			all.Go(func() {
				if ended := f.chain(core, parent, child(), child()); ended.Err != nil {
					t.Error(ended.Err)
				}
			})
		}
	}
	all.Wait()
	if n := f.children(); n != 2*parents {
		t.Errorf("%d children of %d parents", n, parents)
	}
}
