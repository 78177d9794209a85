package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// listJobs answers GET /v1/jobs with a page of jobs without payload, result and
// stack, newest id first. What filters is all of it together; a job matches
// metadata.K=V for every K given. A page may be short or empty while it has a
// next_page_token. A user-bound key lists its own user's jobs, and 403 is what it
// gets for asking for another's.
//
//	@Summary     List jobs
//	@Description Jobs without payload, result and stack, newest id first. All filters given must match. A page may be short, or empty, while `next_page_token` is set: go on until it is null. A token belongs to its filters.
//	@Description
//	@Description `metadata.K=V` may be given for several K. A key that is bound to a user lists that user's jobs.
//	@ID          listJobs
//	@Tags        Jobs
//	@Param       queue          query string false "Jobs of this queue."
//	@Param       type           query string false "Jobs of this type."
//	@Param       state          query string false "Jobs in one of these states, with commas between: blocked, scheduled, queued, running, completed, dead_letter, cancelled."
//	@Param       tag            query string false "Jobs with this tag."
//	@Param       user           query string false "Jobs of this user."
//	@Param       metadata       query object false "By metadata: an object with members such as metadata.order, which become parameters of those names."
//	@Param       created_after  query string false "Jobs submitted after this time." Format(date-time)
//	@Param       created_before query string false "Jobs submitted before this time." Format(date-time)
//	@Param       page_size      query int    false "How many at most."
//	@Param       page_token     query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.JobSummary] "A page of jobs."
//	@x-access    "read"
//	@Router      /v1/jobs [get]
func (s *Server) listJobs(ctx context.Context, c *call, _ none) (reply[api.Page[api.JobSummary]], error) {
	q := request.NewQuery(c.query)
	page, filter := q.Page(), readJobFilter(q)
	if err := q.Err(); err != nil {
		return reply[api.Page[api.JobSummary]]{}, err
	}
	if who := c.principal(); who.User != "" {
		if filter.User == "" {
			filter.User = who.User
		}
		if filter.User != who.User {
			return reply[api.Page[api.JobSummary]]{}, anotherUser("user", "The key sees the jobs of one user, and the list asks for another's.")
		}
	}
	return send[api.HopListRequest, api.Page[api.JobSummary]](ctx, s, c, coreclient.Read(api.HopList),
		api.HopListRequest{Filter: filter, PageSize: page.PageSize, PageToken: page.PageToken})
}

func readJobFilter(q *request.Query) api.JobFilter {
	return api.JobFilter{
		Queue: q.Name("queue"),
		Type:  q.Name("type"),
		States: q.SomeOf("state", api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning,
			api.StateCompleted, api.StateDeadLetter, api.StateCancelled),
		Tag:           q.Name("tag"),
		User:          q.Label("user"),
		Metadata:      q.Metadata(),
		CreatedAfter:  q.Time("created_after"),
		CreatedBefore: q.Time("created_before"),
	}
}
