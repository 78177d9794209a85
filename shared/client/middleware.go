package client

import (
	"context"

	"github.com/forgequeue/forgequeue/shared/api"
)

// SubmitFunc submits jobs. Options.Middleware is made of it.
type SubmitFunc func(ctx context.Context, s *Submission) error

// Submission is one call that submits jobs: one job, a batch, or the jobs of a
// workflow. A middleware may change all of it before it calls next.
type Submission struct {
	// Jobs are the jobs as they will be sent. They are copies; their slices and maps
	// are the caller's, and are replaced rather than changed. The one of Client.Rerun has
	// only what differs: its Type is empty where that stays as it was.
	Jobs []*api.SubmitRequest
	// CorrelationID and Traceparent are sent with the call; empty sends none.
	CorrelationID, Traceparent string
	// IDs are the jobs' ids once next has returned, in the order of Jobs: empty for one
	// that was refused, and nil for a workflow.
	IDs []string
}

// jobsOf are the jobs of a submit's body.
func jobsOf(body any) []*api.SubmitRequest {
	var jobs []*api.SubmitRequest
	switch b := body.(type) {
	case *api.SubmitRequest:
		return []*api.SubmitRequest{b}
	case *api.RerunRequest:
		return []*api.SubmitRequest{&b.SubmitRequest}
	case *api.BatchRequest:
		for i := range b.Jobs {
			jobs = append(jobs, &b.Jobs[i])
		}
	case *api.WorkflowRequest:
		for i := range b.Jobs {
			jobs = append(jobs, &b.Jobs[i].SubmitRequest)
		}
	case *api.WorkflowJobsRequest:
		for i := range b.Jobs {
			jobs = append(jobs, &b.Jobs[i].SubmitRequest)
		}
	}
	return jobs
}

// idsOf are the ids in the answer to a submit.
func idsOf(answer any) []string {
	switch a := answer.(type) {
	case *api.SubmitResponse:
		return []string{a.ID}
	case *api.Job:
		return []string{a.ID}
	case *api.BatchResponse:
		ids := make([]string, len(a.Results))
		for i, result := range a.Results {
			if result.Job != nil {
				ids[i] = result.Job.ID
			}
		}
		return ids
	}
	return nil
}
