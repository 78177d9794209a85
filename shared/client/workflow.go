package client

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// WorkflowBuilder collects the jobs of a workflow, and which come after which:
//
//	w := client.Workflow().Named("report").
//		Add("extract", extract).
//		Add("sums", sums).After("extract").
//		Add("chart", chart).After("extract").
//		Add("send", send).After("sums").AfterOnFailed(api.OnFailedRun, "chart")
//	made, err := c.SubmitWorkflow(ctx, w)
//
// A job may be named before it is added. Its methods change it and return it; it is
// not for concurrent use. A mistake that only the builder can see is the error of
// SubmitWorkflow and AddToWorkflow; all else is for the server to say.
type WorkflowBuilder struct {
	request api.WorkflowRequest
	// faults are mistakes of the calls.
	faults []error
}

// Workflow begins a workflow without jobs.
func Workflow() *WorkflowBuilder { return &WorkflowBuilder{} }

// WorkflowOf is a builder with all of a request, such as one that was read from a
// file. What is added to it later does not change the request.
func WorkflowOf(request api.WorkflowRequest) *WorkflowBuilder {
	request.Jobs = slices.Clone(request.Jobs)
	for i := range request.Jobs {
		request.Jobs[i].After = slices.Clip(request.Jobs[i].After)
	}
	return &WorkflowBuilder{request: request}
}

// Named gives the workflow a name for people, by which lists can be filtered: 1 to
// 128 letters, digits and . _ : -, as of a type. Without one it is "workflow".
func (w *WorkflowBuilder) Named(name string) *WorkflowBuilder {
	w.request.Name = name
	return w
}

// Metadata sets the workflow's own metadata, in the place of earlier ones.
func (w *WorkflowBuilder) Metadata(metadata map[string]string) *WorkflowBuilder {
	w.request.Metadata = maps.Clone(metadata)
	return w
}

// Add adds a job. ref names it in the workflow: once, and of the same characters as
// a type. The job has no After (job ids) and no DedupeKey. At most 1000 jobs.
func (w *WorkflowBuilder) Add(ref string, job api.SubmitRequest) *WorkflowBuilder {
	if len(job.After) > 0 {
		w.faults = append(w.faults, fmt.Errorf("job %q: After holds ids of other jobs; in a workflow say After(ref) after Add", ref))
	}
	w.request.Jobs = append(w.request.Jobs, api.WorkflowJobRequest{Ref: ref, SubmitRequest: job})
	return w
}

// After makes the job that was added last come after these refs: it is blocked
// until each of them has completed, and cancelled where one has failed for good or
// was cancelled. At most 1,000 for one job, and 10,000 for one request.
func (w *WorkflowBuilder) After(refs ...string) *WorkflowBuilder {
	return w.AfterOnFailed("", refs...)
}

// AfterOnFailed is After with a policy for these refs: api.OnFailedCancel (that of
// After), api.OnFailedRun or api.OnFailedHold.
func (w *WorkflowBuilder) AfterOnFailed(policy string, refs ...string) *WorkflowBuilder {
	if len(w.request.Jobs) == 0 {
		w.faults = append(w.faults, fmt.Errorf("After(%q) comes before the first Add", refs))
		return w
	}
	last := &w.request.Jobs[len(w.request.Jobs)-1]
	for _, ref := range refs {
		last.After = append(last.After, api.WorkflowDependency{Ref: ref, OnFailed: policy})
	}
	return w
}

// Request is what SubmitWorkflow sends, or the mistakes of the calls before.
func (w *WorkflowBuilder) Request() (api.WorkflowRequest, error) {
	if len(w.faults) > 0 {
		return api.WorkflowRequest{}, fmt.Errorf("client: workflow: %w", errors.Join(w.faults...))
	}
	request := w.request
	request.Jobs = append([]api.WorkflowJobRequest{}, request.Jobs...) // not null: the server says that there are none
	return request, nil
}
