package handlers

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// SubmitWorkflow submits a workflow.
//
//	@Description Stores up to 1000 jobs that depend on each other, all or none. Each has a `ref`, its name within the workflow, and `after`, the refs of the jobs that must end first: a ref, or an object with `on_failed` as in a submit. More jobs can be added while it runs. A cycle is 400 and names its refs in order.
//	@Description
//	@Description A workflow is charged as one request, and its jobs one by one. The body may have 8 MiB.
//	@Param       workflow        body   api.WorkflowRequest true  "The workflow. Each job needs `ref` and `type`."
//	@Success     202 {object} api.Workflow "Accepted: all of its jobs are stored."
//	@Header      202 {string} Location "The workflow's path."
//	@Header      202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@x-problems  ["cost_above_burst", "cost_above_budget", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-diamond {"name": "order", "jobs": [{"ref": "charge", "type": "payment.charge"}, {"ref": "invoice", "type": "invoice.make", "after": ["charge"]}, {"ref": "parcel", "type": "parcel.send", "after": [{"ref": "charge", "on_failed": "cancel"}]}, {"ref": "mail", "type": "mail.send", "after": ["invoice", {"ref": "parcel", "on_failed": "run"}]}]}
func (h *Handlers) SubmitWorkflow(c *call.Call, workflow api.WorkflowRequest) (r hop.SubmitJobsRequest, cost admission.Cost, err error) {
	if fields := workflow.Validate(time.Now()); len(fields) > 0 {
		return r, cost, problem.Invalid(fields...)
	}
	ids, err := drawIDs(1)
	if err != nil {
		return r, cost, err
	}
	return workflowJobs(c, workflow.Jobs, hop.SubmittedWorkflow{
		ID: ids[0], Name: cmp.Or(workflow.Name, "workflow"), Metadata: workflow.Metadata,
	})
}

// AddToWorkflow adds jobs to a workflow.
//
//	@Description Adds up to 1000 jobs to a running workflow, all or none; a workflow may have 10,000 jobs. They may depend on existing jobs of the workflow, including those that have ended. A worker that finds that more jobs are needed adds them before it completes its own job, so that the workflow does not end in between.
//	@Param       jobs            body   api.WorkflowJobsRequest true  "The jobs."
//	@Success     202 {object} api.Workflow "Accepted: all of the jobs are stored."
//	@Header      202 {string} Location "The workflow's path."
//	@Header      202 {string} Idempotent-Replayed "`true` if this is the stored answer of the first request."
//	@x-problems  ["workflow_ended", "cost_above_burst", "cost_above_budget", "active_cap_reached", "queue_full", "would_wait", "too_many_lanes", "schema_mismatch"]
//	@x-example-one {"jobs": [{"ref": "survey", "type": "mail.send", "after": ["mail"]}]}
func (h *Handlers) AddToWorkflow(c *call.Call, more api.WorkflowJobsRequest) (r hop.SubmitJobsRequest, cost admission.Cost, err error) {
	id, err := c.ID()
	if err != nil {
		return r, cost, err
	}
	if fields := more.Validate(time.Now()); len(fields) > 0 {
		return r, cost, problem.Invalid(fields...)
	}
	if c.Idempotency != nil { // of this workflow: the body does not name it
		keyed := *c.Idempotency
		keyed.Operation += ":" + id
		c.Idempotency = &keyed
	}
	return workflowJobs(c, more.Jobs, hop.SubmittedWorkflow{ID: id, Add: true})
}

// workflowJobs makes an atomic batch of a workflow's jobs.
func workflowJobs(c *call.Call, jobs []api.WorkflowJobRequest, workflow hop.SubmittedWorkflow) (r hop.SubmitJobsRequest, cost admission.Cost, err error) {
	r = hop.SubmitJobsRequest{Batch: true, Atomic: true, Idempotency: c.Idempotency, Workflow: &workflow}
	charged := admission.Submit(true, c.Idempotency != nil)
	for i := range jobs {
		one := &jobs[i].SubmitRequest
		if refused := admitJob(one, c.Principal(), fmt.Sprintf("jobs[%d].", i)); refused != nil {
			return r, cost, refused
		}
		charged.Add(one)
		r.Jobs = append(r.Jobs, *one)
		workflow.Refs, workflow.After = append(workflow.Refs, jobs[i].Ref), append(workflow.After, jobs[i].After)
	}
	r.IDs, err = drawIDs(len(jobs))
	return r, charged, err
}

// ListWorkflows lists workflows.
//
//	@Description Workflows, newest first, with the number of their jobs in each state. A key that is bound to a user sees workflows submitted by that user's keys.
//	@Param       state      query string false "Only workflows in this state." Enums(running, completed, failed, cancelled)
//	@Param       name       query string false "Only workflows of this name."
//	@Success     200 {object} api.Page[api.Workflow] "A page of workflows."
func (h *Handlers) ListWorkflows(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Filtered(ctx, h.core, c, hop.ListWorkflows, func(q *request.Query) api.WorkflowFilter {
		return api.WorkflowFilter{State: q.OneOf("state", api.WorkflowStates()...), Name: q.Name("name")}
	})
}

// GetWorkflow reads a workflow.
//
//	@Description The workflow with those of its jobs that are still kept, and what each depends on. Its state follows from them: `running` while one is live, `completed` when all have completed, `cancelled` when one was cancelled by a caller and none is a dead letter, otherwise `failed`.
//	@Success     200 {object} api.WorkflowDetail "The workflow as it is now."
func (h *Handlers) GetWorkflow(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.ByID(ctx, h.core, c, hop.GetWorkflow)
}

// CancelWorkflow cancels a workflow.
//
//	@Description Waiting jobs are cancelled; for running jobs, cancellation is requested with the worker's next heartbeat. A repeat changes nothing, or continues where the first one failed.
//	@Success     202 {object} api.Workflow "The workflow as it is now."
func (h *Handlers) CancelWorkflow(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Accepted(call.ByID(ctx, h.core, c, hop.CancelWorkflow))
}

// RedriveWorkflow redrives a workflow.
//
//	@Description Queues the workflow's dead letters again; `results` has a status for each. Jobs that they hold continue when they have completed; jobs that were cancelled because of them stay cancelled.
//	@Success     202 {object} api.DeadLetterResponse "A result for each dead letter."
//	@x-problems  ["active_cap_reached"]
func (h *Handlers) RedriveWorkflow(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Accepted(call.ByID(ctx, h.core, c, hop.RedriveWorkflow))
}

// ListParents reads the results of a job's parents.
//
//	@Description Those jobs of `after` that are still kept, by id, with their states and results. A page ends after `page_size` jobs, or when its results reach 1 MiB; it can be empty while `next_page_token` is set. A key without the scope `read` may call this while one of its workers holds the job.
//	@Tags        Workflows
//	@Success     200 {object} api.Page[api.JobParent] "A page of parents."
func (h *Handlers) ListParents(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.PageFor(ctx, h.core, c, hop.ListParents, c.ID)
}
