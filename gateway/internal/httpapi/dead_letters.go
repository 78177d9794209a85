package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func (s *Server) deadLetterRoutes() []endpoint {
	return []endpoint{
		handle(s, route{
			method: "GET", path: "/v1/dead-letters", access: scoped(api.ScopeRead),
			query: pageParams(deadLetterParams()...),
		}, s.listDeadLetters),
		handle(s, route{
			method: "GET", path: "/v1/dead-letters/groups", access: scoped(api.ScopeRead),
			query: append(deadLetterParams(), "page_size"),
		}, s.groupDeadLetters),
		handle(s, route{
			method: "POST", path: "/v1/jobs/{id}/redrive", access: scoped(api.ScopeManage), body: optionalBody(api.MaxBody),
		}, s.redriveJob),
		handle(s, route{
			method: "POST", path: "/v1/dead-letters/redrive", access: scoped(api.ScopeManage), body: body(api.MaxBody),
		}, s.redriveDeadLetters),
		handle(s, route{
			method: "POST", path: "/v1/dead-letters/discard", access: scoped(api.ScopeManage), body: body(api.MaxBody),
		}, s.discardDeadLetters),
	}
}

func deadLetterParams() []string {
	return []string{"queue", "type", "reason", "fingerprint", "after", "before"}
}

// listDeadLetters answers GET /v1/dead-letters with a page, newest job id first;
// after and before are about when the jobs died. A page may be short or empty
// while it has a next_page_token.
func (s *Server) listDeadLetters(ctx context.Context, c *call, _ none) (reply[api.Page[api.DeadLetter]], error) {
	p := &parameters{values: c.query}
	page, filter := p.page(), p.deadLetterFilter()
	if err := p.err(); err != nil {
		return reply[api.Page[api.DeadLetter]]{}, err
	}
	return send[api.HopDeadLettersRequest, api.Page[api.DeadLetter]](ctx, s, c, coreclient.Read(api.HopDeadLetters),
		api.HopDeadLettersRequest{Filter: filter, PageSize: page.PageSize, PageToken: page.PageToken})
}

// deadLetterFilter reads what the lists of dead letters are narrowed by.
func (p *parameters) deadLetterFilter() api.DeadLetterFilter {
	return api.DeadLetterFilter{
		Queue:       p.name("queue"),
		Type:        p.name("type"),
		Reason:      p.oneOf("reason", api.ReasonExhausted, api.ReasonPermanent, api.ReasonWorkerLost, api.ReasonDeadline),
		Fingerprint: strings.ToLower(p.text("fingerprint", "must be 1 to 64 hexadecimal digits", api.ValidFingerprint)),
		After:       p.time("after"),
		Before:      p.time("before"),
	}
}

// groupDeadLetters answers GET /v1/dead-letters/groups with the largest groups of
// those that match, page_size of them, largest first: dead letters of one fingerprint
// in one queue. At most the newest 100,000 are read, and read_capped says so. There
// is no next page: narrow the filter.
func (s *Server) groupDeadLetters(ctx context.Context, c *call, _ none) (reply[api.DeadLetterGroups], error) {
	p := &parameters{values: c.query}
	page, filter := p.page(), p.deadLetterFilter()
	if err := p.err(); err != nil {
		return reply[api.DeadLetterGroups]{}, err
	}
	return send[api.HopDeadLetterGroupsRequest, api.DeadLetterGroups](ctx, s, c, coreclient.Read(api.HopDeadLetterGroups),
		api.HopDeadLetterGroupsRequest{Filter: filter, Size: page.PageSize})
}

// redriveJob answers POST /v1/jobs/{id}/redrive: 202 with a dead letter that is
// queued again, its attempts anew. Any other job is 409 not_dead, and so is this
// one for a repeat.
func (s *Server) redriveJob(ctx context.Context, c *call, _ none) (reply[api.JobSummary], error) {
	id, err := c.id()
	if err != nil {
		return reply[api.JobSummary]{}, err
	}
	answer, err := send[api.HopJobRequest, api.JobSummary](ctx, s, c, coreclient.Write(api.HopRedrive), api.HopJobRequest{JobID: id})
	answer.status = http.StatusAccepted
	return answer, err
}

// redriveDeadLetters answers POST /v1/dead-letters/redrive. By ids up to 1000 dead
// letters are queued again at once, each with a status of its own in an
// api.DeadLetterResponse, in the order sent. By filter all that match now are queued
// again by and by, at rate_per_second at most: 202 with an api.Redrive. With dry_run
// nothing changes, and an api.Matched says how many it would be.
func (s *Server) redriveDeadLetters(ctx context.Context, c *call, r api.DeadLetterRequest) (reply[json.RawMessage], error) {
	return s.settleDead(ctx, c, api.HopDeadLetterRedrive, r)
}

// discardDeadLetters answers POST /v1/dead-letters/discard: dead letters are forgotten
// for good, by ids or by filter, answered as for a redrive. A repeat finds nothing:
// 404 for each id.
func (s *Server) discardDeadLetters(ctx context.Context, c *call, r api.DeadLetterRequest) (reply[json.RawMessage], error) {
	return s.settleDead(ctx, c, api.HopDeadLetterDiscard, r)
}

// settleDead passes a list of dead letters, or a filter, on. An id that cannot be one travels
// as an empty one: core answers it in its place, as a job that is not there.
func (s *Server) settleDead(ctx context.Context, c *call, path string, r api.DeadLetterRequest) (reply[json.RawMessage], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return reply[json.RawMessage]{}, problem.Invalid(fields...)
	}
	for i, given := range r.IDs {
		id, ok := canonicalUUID(given)
		if !ok {
			id = ""
		}
		r.IDs[i] = id
	}
	op := coreclient.Write(path)
	if r.DryRun {
		op = coreclient.Read(path)
	}
	answer, err := send[api.DeadLetterRequest, json.RawMessage](ctx, s, c, op, r)
	if err != nil || r.DryRun {
		return answer, err
	}
	if r.Filter != nil {
		answer.status = http.StatusAccepted
		return answer, nil
	}
	answer.value, err = signResults(c, answer.value, len(r.IDs))
	return answer, err
}

// signResults puts the request's name into the problems of core's results.
func signResults(c *call, told json.RawMessage, want int) (json.RawMessage, error) {
	var response api.DeadLetterResponse
	if err := json.Unmarshal(told, &response); err != nil {
		return nil, fmt.Errorf("%w: %w: results of dead letters: %w", coreclient.ErrOutcomeUnknown, coreclient.ErrContract, err)
	}
	if got := len(response.Results); got != want {
		return nil, errShort(got, want)
	}
	for i := range response.Results {
		if p := response.Results[i].Problem; p != nil {
			response.Results[i].Problem = c.sign(retold(p))
		}
	}
	return encode(response)
}
