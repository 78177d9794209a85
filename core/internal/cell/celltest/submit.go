package celltest

import (
	"encoding/json"

	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Render makes the response to a submit, for tests of the packages below operations, which has
// the real one.
func Render(a *submit.Answer) (submit.Response, error) {
	if a.Batch {
		response := api.BatchResponse{Accepted: len(a.Jobs)}
		for i, r := range a.Jobs {
			result := api.BatchResult{Index: i, Status: statusOf(&r), Problem: r.Refused}
			if r.Refused != nil {
				response.Accepted--
				response.Rejected++
			} else {
				result.Job = &api.BatchJob{ID: r.Row.ID.String(), State: r.Row.State, RunAt: &api.Time{Time: r.Row.RunAt}}
			}
			response.Results = append(response.Results, result)
		}
		body, err := json.Marshal(response)
		return submit.Response{Status: 200, Body: body}, err
	}
	job := &a.Jobs[0]
	body, err := json.Marshal(api.SubmitResponse{JobSummary: job.Row.Summary(), Warnings: a.Warnings, Deduplicated: job.Deduplicated})
	return submit.Response{Status: statusOf(job), Body: body}, err
}

func statusOf(r *submit.JobResult) int {
	switch {
	case r.Refused != nil:
		return r.Refused.Status
	case r.Deduplicated:
		return 200
	}
	return 202
}

// ResponseTo gives the response to a submit: the saved one, or else a rendered one. It is
// empty where the submit was refused.
func ResponseTo(a *submit.Answer) submit.Response {
	switch {
	case a.Saved != nil:
		return *a.Saved
	case a.Problem != nil || len(a.Jobs) == 0:
		return submit.Response{}
	}
	response, err := Render(a)
	if err != nil {
		panic(err)
	}
	return response
}
