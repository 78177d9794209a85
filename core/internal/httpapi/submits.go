package httpapi

import (
	"net/http"

	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// renderSubmit makes the public response to a submit that was not refused as a whole.
func renderSubmit(a *submit.Answer) (idempotency.Response, error) {
	if a.Batch {
		body, err := marshal(batchResponse(a))
		return idempotency.Response{Status: http.StatusOK, Body: body}, err
	}
	job := &a.Jobs[0]
	response := api.SubmitResponse{JobSummary: job.Row.Summary(), Warnings: a.Warnings, Deduplicated: job.Deduplicated}
	if response.Warnings == nil {
		response.Warnings = []string{}
	}
	body, err := marshal(response)
	return idempotency.Response{Status: acceptedStatus(job), Body: body}, err
}

func batchResponse(a *submit.Answer) api.BatchResponse {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(a.Jobs))}
	for i := range a.Jobs {
		job := &a.Jobs[i]
		if job.Refused != nil {
			response.Results[i] = api.BatchResult{Index: i, Status: job.Refused.Status, Problem: job.Refused}
			response.Rejected++
			continue
		}
		response.Results[i] = api.BatchResult{
			Index: i, Status: acceptedStatus(job),
			Job: &api.BatchJob{ID: job.Row.ID.String(), State: job.Row.State, RunAt: &api.Time{Time: job.Row.RunAt}},
		}
		response.Accepted++
	}
	return response
}

// acceptedStatus is 202 for a stored job, 200 for one that a live job stands for.
func acceptedStatus(job *submit.JobResult) int {
	if job.Deduplicated {
		return http.StatusOK
	}
	return http.StatusAccepted
}
