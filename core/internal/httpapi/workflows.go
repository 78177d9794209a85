package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/dispatch"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// workflowOf reads the workflow of a submit. It is validated by the gateway too; a cycle would keep
// its jobs blocked for ever.
func workflowOf(call *dispatch.SubmitCall, request *api.HopSubmitRequest, now time.Time) error {
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

// getWorkflow reads a workflow with its jobs.
//
//	@Summary     Read a workflow
//	@Description A workflow with its jobs, and what each comes after.
//	@ID          workflowGets
//	@Tags        Workflows
//	@Param       envelope body api.Envelope[api.HopWorkflowRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.WorkflowDetail] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/workflow-gets [post]
func (s *Server) getWorkflow(ctx context.Context, owner tenant.ID, item api.Item[api.HopWorkflowRequest]) (api.WorkflowDetail, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.WorkflowDetail{}, err
	}
	return s.Store.WorkflowDetail(ctx, owner, item.Principal.User, id)
}

// listWorkflows reads a page of workflows.
//
//	@Summary     List workflows
//	@Description A page of workflows by a filter, newest first.
//	@ID          workflowLists
//	@Tags        Workflows
//	@Param       envelope body api.Envelope[api.HopWorkflowListRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Workflow]] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-running {"filter": {"state": "running"}, "page_size": 50}
//	@Router      /internal/v1/workflow-lists [post]
func (s *Server) listWorkflows(ctx context.Context, owner tenant.ID, item api.Item[api.HopWorkflowListRequest]) (api.Page[api.Workflow], error) {
	of := listingOf(api.HopWorkflowList, item.Principal, item.Request.Filter, item.Request.PageSize, item.Request.PageToken)
	return paged(s, of, func(cursor string, size int) (api.Page[api.Workflow], error) {
		return s.Store.ListWorkflows(ctx, owner, item.Principal.User, item.Request.Filter, size, cursor)
	})
}

// cancelWorkflow cancels all jobs of a workflow.
//
//	@Summary     Cancel a workflow
//	@Description Its jobs that wait are cancelled, the holders of those that run are asked to stop. A repeat changes nothing.
//	@ID          workflowCancels
//	@Tags        Workflows
//	@Param       envelope body api.Envelope[api.HopWorkflowRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Workflow] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/workflow-cancels [post]
func (s *Server) cancelWorkflow(ctx context.Context, owner tenant.ID, item api.Item[api.HopWorkflowRequest]) (api.Workflow, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Workflow{}, err
	}
	return s.Dispatcher.CancelWorkflow(ctx, owner, item.Principal.User, id)
}

// redriveWorkflow queues the dead letters of a workflow again.
//
//	@Summary     Redrive a workflow
//	@Description Its dead letters, each with a status of its own.
//	@ID          workflowRedrives
//	@Tags        Workflows
//	@Param       envelope body api.Envelope[api.HopWorkflowRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.DeadLetterResponse] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-one {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001"}
//	@Router      /internal/v1/workflow-redrives [post]
func (s *Server) redriveWorkflow(ctx context.Context, owner tenant.ID, item api.Item[api.HopWorkflowRequest]) (api.DeadLetterResponse, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.DeadLetterResponse{}, err
	}
	redriven, err := s.Dispatcher.RedriveWorkflow(ctx, owner, item.Principal.User, id)
	if err != nil {
		return api.DeadLetterResponse{}, err
	}
	return redriveResponse(ctx, redriven), nil
}

// listParents reads a page of what the jobs that one came after have given. The key may read the tenant's
// jobs, or its worker holds the job.
//
//	@Summary     Read the parents of a job
//	@Description A page of the jobs that it came after and that are still kept, with their results, by id. It ends where the results reach 8 MiB.
//	@ID          parents
//	@Tags        Workflows
//	@Param       envelope body api.Envelope[api.HopParentsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.JobParent]] "An answer for each item."
//	@x-access    "tenant"
//	@x-problems  ["not_found"]
//	@x-example-one {"job_id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "page_size": 50}
//	@Router      /internal/v1/parents [post]
func (s *Server) listParents(ctx context.Context, item api.Item[api.HopParentsRequest]) (api.Page[api.JobParent], error) {
	id, err := jobID(item.Request.JobID)
	if err != nil {
		return api.Page[api.JobParent]{}, err
	}
	of := listingOf(api.HopParents, item.Principal, id, item.Request.PageSize, item.Request.PageToken)
	return paged(s, of, func(cursor string, size int) (api.Page[api.JobParent], error) {
		page := queue.ParentsPage{Size: size}
		if cursor != "" {
			if page.After, err = uuid.Parse(cursor); err != nil {
				return api.Page[api.JobParent]{}, store.ErrPageToken
			}
		}
		return s.parents(ctx, item.Principal, id, page)
	})
}

func (s *Server) parents(ctx context.Context, who api.Principal, id uuid.UUID, page queue.ParentsPage) (api.Page[api.JobParent], error) {
	if who.Kind == api.PrincipalTenant && slices.Contains(who.Scopes, api.ScopeRead) {
		owner, err := ofTenant(who)
		if err != nil {
			return api.Page[api.JobParent]{}, err
		}
		return s.Store.Parents(ctx, owner, who.User, id, page)
	}
	owner, err := ofWorker(who)
	if err != nil {
		return api.Page[api.JobParent]{}, err
	}
	return s.Store.ParentsForHolder(ctx, owner, id, page)
}
