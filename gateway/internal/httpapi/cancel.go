package httpapi

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

// cancelJob answers POST /v1/jobs/{id}/cancel: 200 with a job that is cancelled,
// by this or before; 202 with one that runs and whose worker will be told. A job
// that has ended otherwise is 409 job_terminal. A repeat changes nothing.
//
//	@Summary     Cancel a job
//	@Description A job that waits is cancelled at once: 200, and 200 again for a repeat. A job that runs is asked to stop: 202, and its worker hears of it with the next heartbeat. If the worker completes it all the same, completed stands; anything else ends it as cancelled.
//	@ID          cancelJob
//	@Tags        Jobs
//	@Param       id path string true "The job's id." Format(uuid)
//	@Success     200 {object} api.JobSummary "The job is cancelled."
//	@Success     202 {object} api.JobSummary "The job runs; its worker will be told."
//	@x-access    "submit"
//	@x-problems  ["job_terminal"]
//	@Router      /v1/jobs/{id}/cancel [post]
func (s *Server) cancelJob(ctx context.Context, c *call, _ none) (reply[api.JobSummary], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.JobSummary]{}, err
	}
	answer, err := send[api.HopJobRequest, api.HopCancelResponse](ctx, s, c, coreclient.Write(api.HopCancel), api.HopJobRequest{JobID: id})
	if err != nil {
		return reply[api.JobSummary]{}, err
	}
	status := http.StatusOK
	if answer.value.Requested {
		status = http.StatusAccepted
	}
	return reply[api.JobSummary]{status: status, value: answer.value.Job}, nil
}
