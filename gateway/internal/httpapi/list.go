package httpapi

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (s *Server) listRoutes() []endpoint {
	return []endpoint{
		handle(s, route{
			method: "GET", path: "/v1/jobs", access: scoped(api.ScopeRead),
			query: pageParams("queue", "type", "state", "tag", "user", metadataParam, "created_after", "created_before"),
		}, s.listJobs),
	}
}

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
	p := &parameters{values: c.query}
	page, filter := p.page(), readJobFilter(p)
	if err := p.err(); err != nil {
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

func readJobFilter(p *parameters) api.JobFilter {
	return api.JobFilter{
		Queue: p.name("queue"),
		Type:  p.name("type"),
		States: p.someOf("state", api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning,
			api.StateCompleted, api.StateDeadLetter, api.StateCancelled),
		Tag:           p.name("tag"),
		User:          p.label("user"),
		Metadata:      readMetadata(p),
		CreatedAfter:  p.time("created_after"),
		CreatedBefore: p.time("created_before"),
	}
}

// metadataParam begins every parameter that filters by metadata: metadata.K=V.
const metadataParam = "metadata."

// readMetadata reads them; what no job can have is refused rather than not found.
func readMetadata(p *parameters) map[string]string {
	var metadata map[string]string
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		key, ok := strings.CutPrefix(name, metadataParam)
		if !ok {
			continue
		}
		value := p.values.Get(name)
		switch {
		case !api.ValidName(key):
			p.refuse(name, "the key "+nameRule)
		case len(value) > api.MaxMetadataValue || !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			p.refuse(name, fmt.Sprintf("must be UTF-8 text of at most %d bytes, without a NUL", api.MaxMetadataValue))
		case metadata == nil:
			metadata = map[string]string{key: value}
		default:
			metadata[key] = value
		}
	}
	if len(metadata) > api.MaxMetadata {
		p.refuse("metadata", fmt.Sprintf("must have at most %d entries", api.MaxMetadata))
	}
	return metadata
}
