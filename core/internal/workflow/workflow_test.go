package workflow_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

type fixture struct{ *celltest.Fixture }

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{celltest.NewFixture(t)}
}

// submission makes jobs with refs; after gives the refs of each one's parents.
func (f *fixture) submission(made *workflow.New, after func(i int) []string) submit.Submission {
	s := submit.Submission{Tenant: f.Tenant, Batch: true, Atomic: true, Workflow: made}
	places := map[string]uuid.UUID{}
	for i, ref := range made.Refs {
		one := f.Job()
		places[ref] = one.ID
		for _, parent := range after(i) {
			edge := submit.After{Ref: parent, OnFailed: job.CancelChild}
			if id, own := places[parent]; own {
				edge = submit.After{Parent: id, OnFailed: job.CancelChild}
			}
			one.After = append(one.After, edge)
		}
		s.Jobs = append(s.Jobs, one)
	}
	return s
}

func (f *fixture) mustSubmit(s submit.Submission) *api.Workflow {
	f.Helper()
	answer := f.TrySubmit(s)[0]
	if answer.Problem != nil {
		f.Fatal(answer.Problem, answer.Problem.Errors)
	}
	return answer.Workflow
}

func newWorkflow(refs ...string) *workflow.New {
	return &workflow.New{ID: uuid.Must(uuid.NewV7()), Name: "test", Metadata: []byte("{}"), Refs: refs}
}

func none(int) []string { return nil }

func (f *fixture) followUp() {
	f.Helper()
	for {
		step, err := f.Store.Jobs.FollowUp(f.Context(), f.Tenant)
		if err != nil {
			f.Fatal(err)
		}
		if step.Done == 0 && !step.More {
			return
		}
	}
}

func (f *fixture) workflow(id uuid.UUID) api.Workflow {
	f.Helper()
	got, err := f.Store.Workflows.Workflow(f.Context(), f.Tenant, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return got
}

// A chain of 10,000 jobs, brought by ten requests, is the largest workflow there may be. A failure of the
// first one cancels all of it.
func TestAWorkflowGrownToItsBound(t *testing.T) {
	celltest.Large(t, "TestAWorkflowHasABoundOnItsEdges")
	t.Parallel()
	f := newFixture(t)
	made := newWorkflow()
	id := made.ID
	for from := 0; from < api.MaxWorkflowJobs; from += api.MaxBatchJobs {
		made = &workflow.New{ID: id, Name: "test", Metadata: []byte("{}"), Add: from > 0}
		for i := range api.MaxBatchJobs {
			made.Refs = append(made.Refs, fmt.Sprint("r", from+i))
		}
		shown := f.mustSubmit(f.submission(made, func(i int) []string {
			if from+i == 0 {
				return nil
			}
			return []string{fmt.Sprint("r", (from+i)/2)} // a tree: each has two after it
		}))
		if n := shown.Counts.Live(); n != from+api.MaxBatchJobs {
			t.Fatalf("%d jobs after %d", n, from+api.MaxBatchJobs)
		}
	}
	more := f.submission(&workflow.New{ID: id, Add: true, Refs: []string{"one-more"}}, none)
	if answer := f.TrySubmit(more)[0]; answer.Problem == nil || answer.Problem.Code != problem.InvalidRequest {
		t.Errorf("beyond the bound: %+v", answer.Problem)
	}
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e"}})
	f.followUp()
	got := f.workflow(id)
	if want := (api.WorkflowCounts{DeadLetter: 1, Cancelled: api.MaxWorkflowJobs - 1}); got.Counts != want || got.State != api.WorkflowFailed {
		t.Errorf("%+v", got)
	}
	detail, err := f.Store.Workflows.WorkflowDetail(t.Context(), f.Tenant, "", id)
	if err != nil || len(detail.Jobs) != api.MaxWorkflowJobs || detail.Jobs[9999].Ref != "r9999" || *detail.Jobs[9999].After[0].Ref != "r4999" {
		t.Errorf("%d jobs, %v", len(detail.Jobs), err)
	}
	if lines, err := f.Store.Dependencies.VerifyDependencies(t.Context()); err != nil || len(lines) > 0 {
		t.Error(lines, err)
	}
}

func TestTheStateIsReadFromTheJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	chain := func() (uuid.UUID, []submit.NewJob) {
		s := f.submission(newWorkflow("a", "b"), func(i int) []string { return []string{"a"}[:i] })
		f.mustSubmit(s)
		return s.Workflow.ID, s.Jobs
	}
	complete := func() {
		t.Helper()
		f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindComplete})
		f.followUp()
	}
	done, _ := chain()
	complete()
	if got := f.workflow(done); got.State != api.WorkflowRunning || got.FinishedAt != nil {
		t.Errorf("%+v", got)
	}
	complete()
	failed, _ := chain()
	f.MustEnd(jobs.Ending{Lease: f.ClaimOne().Lease(), Kind: api.KindFail, Permanent: true, Error: &api.JobError{Type: "e"}})
	f.followUp()
	cancelled, jobs := chain()
	if _, _, err := f.Store.Jobs.Cancel(t.Context(), f.Tenant, "", jobs[0].ID); err != nil {
		t.Fatal(err)
	}
	f.followUp()
	for id, want := range map[uuid.UUID]string{done: api.WorkflowCompleted, failed: api.WorkflowFailed, cancelled: api.WorkflowCancelled} {
		if got := f.workflow(id); got.State != want || got.FinishedAt == nil {
			t.Errorf("want %s: %+v", want, got)
		}
		page, err := f.Store.Workflows.ListWorkflows(t.Context(), f.Tenant, "", api.WorkflowFilter{State: want}, 10, "")
		if err != nil || len(page.Items) != 1 || page.Items[0].ID != id.String() {
			t.Errorf("%s: %+v, %v", want, page, err)
		}
	}
	// a dead letter that was discarded leaves a job that was not cancelled by a person
	dead, err := f.Store.Workflows.DeadLettersOfWorkflow(t.Context(), failed)
	if err != nil || len(dead) != 1 {
		t.Fatal(dead, err)
	}
	if _, err := f.Store.DeadLetters.Discard(t.Context(), f.Tenant, "", dead); err != nil {
		t.Fatal(err)
	}
	if got := f.workflow(failed); got.State != api.WorkflowFailed {
		t.Errorf("after a discard: %+v", got)
	}
}

func TestAWorkflowIsStoredWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	late := f.submission(newWorkflow("a", "b"), none)
	past := time.Now().Add(-time.Hour)
	late.Jobs[1].Deadline = &past
	if answer := f.TrySubmit(late)[0]; answer.Problem == nil || answer.Workflow != nil {
		t.Errorf("%+v", answer)
	}
	other := f.submission(&workflow.New{ID: late.Workflow.ID, Add: true, Refs: []string{"x"}}, none)
	if answer := f.TrySubmit(other)[0]; answer.Problem == nil || answer.Problem.Code != problem.NotFound {
		t.Errorf("added to none: %+v", answer.Problem)
	}
	for _, table := range []string{"jobs", "workflows", "workflow_jobs", "dependencies"} {
		if n := f.Count(table); n != 0 {
			t.Errorf("%d rows in %s", n, table)
		}
	}
}

func TestAnotherUsersWorkflow(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	mine := f.submission(newWorkflow("a"), none)
	mine.User, mine.Jobs[0].User = "alice", new("alice")
	if shown := f.mustSubmit(mine); shown.User == nil || *shown.User != "alice" {
		t.Errorf("%+v", shown)
	}
	more := f.submission(&workflow.New{ID: mine.Workflow.ID, Add: true, Refs: []string{"b"}}, none)
	more.User = "bob"
	if answer := f.TrySubmit(more)[0]; answer.Problem == nil || answer.Problem.Code != problem.NotFound {
		t.Errorf("bob adds: %+v", answer.Problem)
	}
	for _, user := range []*string{nil, new("bob"), new("alice")} { // by a key that is bound to no user
		more := f.submission(&workflow.New{ID: mine.Workflow.ID, Add: true, Refs: []string{"c"}}, none)
		more.Jobs[0].User = user
		problem := f.TrySubmit(more)[0].Problem
		if own := user != nil && *user == "alice"; own != (problem == nil) || !own && problem.Errors[0].Field != "jobs[0].user" {
			t.Errorf("a job of another user is added to alice's: %+v", problem)
		}
	}
	if _, err := f.Store.Workflows.Workflow(t.Context(), f.Tenant, "bob", mine.Workflow.ID); err == nil {
		t.Error("bob sees it")
	}
	if _, err := f.Store.Workflows.Workflow(t.Context(), f.NewTenant(), "", mine.Workflow.ID); err == nil {
		t.Error("another tenant sees it")
	}
	if page, err := f.Store.Workflows.ListWorkflows(t.Context(), f.Tenant, "bob", api.WorkflowFilter{}, 10, ""); err != nil || len(page.Items) != 0 {
		t.Errorf("bob lists %+v, %v", page, err)
	}
}

func TestAWorkflowIsForgottenWithItsJobs(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	kept, gone := f.submission(newWorkflow("a"), none), f.submission(newWorkflow("a", "b"), none)
	f.mustSubmit(kept)
	f.mustSubmit(gone)
	f.Exec(`DELETE FROM jobs WHERE id = ANY($1)`, []uuid.UUID{gone.Jobs[0].ID, gone.Jobs[1].ID})
	if n, err := f.Store.Workflows.ForgetWorkflows(t.Context(), time.Hour, uuid.Nil, 10); err != nil || n.Forgotten != 0 {
		t.Errorf("new ones: %+v, %v", n, err)
	}
	if n, err := f.Store.Workflows.ForgetWorkflows(t.Context(), -time.Hour, uuid.Nil, 10); err != nil || n.Forgotten != 1 || n.Seen != 2 {
		t.Errorf("%+v, %v", n, err)
	}
	if n := f.Count("workflow_jobs"); n != 1 {
		t.Errorf("%d jobs of workflows are left", n)
	}
}

func TestCancelAll(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.submission(newWorkflow("a", "b", "c"), func(i int) []string { return []string{"a", "a"}[:min(i, 1)] })
	f.mustSubmit(s)
	running := f.ClaimOne()
	ids, err := f.Store.Workflows.Uncancelled(t.Context(), s.Workflow.ID)
	if err != nil || len(ids) != 3 || ids[2] != running.ID {
		t.Fatal(ids, err)
	}
	ended, requested, err := f.Store.Jobs.CancelAll(t.Context(), f.Tenant, ids)
	if err != nil || len(ended) != 2 || len(requested) != 1 || requested[0] != running.ID {
		t.Fatal(ended, requested, err)
	}
	if left, err := f.Store.Workflows.Uncancelled(t.Context(), s.Workflow.ID); err != nil || len(left) != 0 {
		t.Error(left, err)
	}
	f.MustEnd(jobs.Ending{Lease: running.Lease(), Kind: api.KindRelease})
	f.followUp()
	if got := f.workflow(s.Workflow.ID); got.State != api.WorkflowCancelled || got.Counts.Cancelled != 3 {
		t.Errorf("%+v", got)
	}
}
