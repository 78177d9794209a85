package httpapi

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (s *Server) cancelRoutes() []endpoint {
	return []endpoint{
		handle(s, route{
			method: "POST", path: "/v1/jobs/{id}/cancel", access: scoped(api.ScopeSubmit), body: optionalBody(api.MaxBody),
		}, s.cancelJob),
	}
}

// cancelJob answers POST /v1/jobs/{id}/cancel: 200 with a job that is cancelled,
// by this or before; 202 with one that runs and whose worker will be told. A job
// that has ended otherwise is 409 job_terminal. A repeat changes nothing.
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
