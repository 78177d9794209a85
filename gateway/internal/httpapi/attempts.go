package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listAttempts answers GET /v1/jobs/{id}/attempts with a page of the job's
// executions, by epoch.
//
//	@Summary     List a job's attempts
//	@Description Each execution of the job, oldest first: who ran it, when, how it ended and why. A snooze or release is none. Attempts are kept for 30 days.
//	@ID          listAttempts
//	@Tags        Jobs
//	@Param       id         path  string true  "The job's id." Format(uuid)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Attempt] "A page of attempts."
//	@x-access    "read"
//	@Router      /v1/jobs/{id}/attempts [get]
func (s *Server) listAttempts(ctx context.Context, c *call, _ none) (reply[api.Page[api.Attempt]], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.Page[api.Attempt]]{}, err
	}
	page, err := request.ReadPage(c.query)
	if err != nil {
		return reply[api.Page[api.Attempt]]{}, err
	}
	return send[api.HopAttemptsRequest, api.Page[api.Attempt]](ctx, s, c, coreclient.Read(api.HopAttempts),
		api.HopAttemptsRequest{JobID: id, PageSize: page.PageSize, PageToken: page.PageToken})
}
