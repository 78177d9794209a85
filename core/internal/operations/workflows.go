package operations

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// workflowOf reads the workflow of a submit. It is validated by the gateway too; a cycle would keep
// its jobs blocked for ever.
func workflowOf(call *submits.Call, request *hop.SubmitJobsRequest, now time.Time) error {
	given := request.Workflow
	if len(given.Refs) != len(request.Jobs) || len(given.After) != len(request.Jobs) || !request.Batch || !request.Atomic {
		return problem.New(problem.InvalidRequest, "refs, after and jobs of a workflow must run in parallel, as an atomic batch.")
	}
	id, err := uuid.Parse(given.ID)
	if err != nil || id.Version() != 7 {
		return problem.New(problem.NotFound, "There is no workflow with this id.")
	}
	jobs := make([]api.WorkflowJobRequest, len(request.Jobs))
	for i := range jobs {
		jobs[i] = api.WorkflowJobRequest{Ref: given.Refs[i], SubmitRequest: request.Jobs[i], After: given.After[i]}
	}
	fields := (&api.WorkflowJobsRequest{Jobs: jobs}).Validate(now)
	if !given.Add {
		fields = (&api.WorkflowRequest{Name: given.Name, Metadata: given.Metadata, Jobs: jobs}).Validate(now)
	}
	if len(fields) > 0 {
		return problem.Invalid(fields...)
	}
	call.Refs = given.After
	call.Workflow = &workflow.New{ID: id, Name: given.Name, Metadata: []byte("{}"), Add: given.Add, Refs: given.Refs}
	if len(given.Metadata) > 0 {
		call.Workflow.Metadata, err = json.Marshal(given.Metadata)
	}
	return err
}

// GetWorkflow reads a workflow with its jobs, and what each comes after.
//
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) GetWorkflow(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.WorkflowDetail, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.WorkflowDetail{}, err
	}
	return o.Store.Workflows.WorkflowDetail(ctx, owner, item.Principal.User, id)
}

// ListWorkflows lists workflows by a filter, newest first.
//
//	@x-example-running {"filter": {"state": "running"}, "page_size": 50}
func (o *Operations) ListWorkflows(ctx context.Context, owner tenant.ID, item hop.Item[hop.Filtered[api.WorkflowFilter]]) (api.Page[api.Workflow], error) {
	of := pages.ListingOf(hop.ListWorkflows.Path, item.Principal, item.Request.Filter, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(o.Pages, of, func(w api.Workflow) string { return w.ID }, func(cursor string, size int) (api.Page[api.Workflow], error) {
		return o.Store.Workflows.ListWorkflows(ctx, owner, item.Principal.User, item.Request.Filter, size, cursor)
	})
}

// CancelWorkflow cancels all jobs of a workflow. Those that wait are cancelled, the holders of those that
// run are asked to stop. A repeat changes nothing.
//
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) CancelWorkflow(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.Workflow, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Workflow{}, err
	}
	return o.Engine.Submits.CancelWorkflow(ctx, owner, item.Principal.User, id)
}

// RedriveWorkflow redrives the dead letters of a workflow, each with a status of its own.
//
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
func (o *Operations) RedriveWorkflow(ctx context.Context, owner tenant.ID, item hop.Item[hop.ID]) (api.DeadLetterResponse, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.DeadLetterResponse{}, err
	}
	redriven, err := o.Engine.Submits.RedriveWorkflow(ctx, owner, item.Principal.User, id)
	if err != nil {
		return api.DeadLetterResponse{}, err
	}
	return redriveResponse(ctx, redriven), nil
}

// ListParents lists the jobs that a job came after and that are still kept, with their results, by id. The
// key may read the tenant's jobs, or its worker holds the job. A page ends where the results reach 1 MiB.
//
//	@x-problems  ["not_found"]
//	@x-example-one {"for": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "page_size": 50}
func (o *Operations) ListParents(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageFor]) (api.Page[api.JobParent], error) {
	id, err := jobID(item.Request.For)
	if err != nil {
		return api.Page[api.JobParent]{}, err
	}
	of := pages.ListingOf(hop.ListParents.Path, item.Principal, id, item.Request.PageSize, item.Request.PageToken)
	return pages.Paged(o.Pages, of, nil, func(cursor string, size int) (api.Page[api.JobParent], error) {
		page := read.ParentsPage{Size: size}
		if cursor != "" {
			if page.After, err = uuid.Parse(cursor); err != nil {
				return api.Page[api.JobParent]{}, store.ErrPageToken
			}
		}
		if principals.IsReader(item.Principal) {
			return o.Store.JobReads.Parents(ctx, owner, item.Principal.User, id, page)
		}
		return o.Store.JobReads.ParentsForHolder(ctx, owner, id, page)
	})
}
