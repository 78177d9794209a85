package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/api"
)

// StatsRequest is what to read stats of; what is empty is its default, which [Client.Stats] says.
type StatsRequest struct {
	// Queue is one queue; empty for all queues of the tenant together.
	Queue string
	// From is an hour before To, To now.
	From, To *api.Time
	// Step is api.StepMinute, api.StepHour or api.StepDay; empty for minutes where the range has at most 24 hours,
	// and hours where it is longer.
	Step string
}

func (r *StatsRequest) query() url.Values {
	query := url.Values{}
	set(query, "queue", r.Queue)
	set(query, "step", r.Step)
	setTime(query, "from", r.From)
	setTime(query, "to", r.To)
	return query
}

// Stats reads what the tenant's jobs did, by steps of time: for charts, because what a killed server had not stored
// yet is missing. At most api.MaxStatsItems steps. It needs a key that is bound to no user.
func (c *Client) Stats(ctx context.Context, request StatsRequest) (api.Stats, error) {
	var answer api.Stats
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "stats"}, query: request.query(), answer: &answer, repeatable: true})
	return answer, err
}

// LimitStats reads how much of the limits of a queue, or without one of the tenant and its users, was used, by steps of
// time, and who was refused. It needs a key that is bound to no user.
func (c *Client) LimitStats(ctx context.Context, request StatsRequest) (api.LimitStats, error) {
	var answer api.LimitStats
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "limits", "stats"}, query: request.query(), answer: &answer, repeatable: true})
	return answer, err
}

// TenantStats reads how many attempts the tenants with the most had, and the others together, by steps of time: of at most
// api.MaxTenantStatsHours hours. It is the operator's; the request's queue must be empty.
func (c *Client) TenantStats(ctx context.Context, request StatsRequest) (api.TenantStats, error) {
	var answer api.TenantStats
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "admin", "tenants", "stats"}, query: request.query(), answer: &answer, repeatable: true})
	return answer, err
}

// UsageRequest is what to read the usage of; what is empty is its default.
type UsageRequest struct {
	// From and To are the first and the last day, such as 2026-11-24, of UTC: the current month where they are empty.
	From, To string
	// By is api.ByDay, api.ByType or api.ByUser; empty for days.
	By string
}

// Usage reads one page of exact counts of the tenant's jobs. By day all are in one page. It needs a key that is bound to
// no user.
func (c *Client) Usage(ctx context.Context, request UsageRequest, page PageRequest) (api.Usage, error) {
	query := page.query()
	set(query, "from", request.From)
	set(query, "to", request.To)
	set(query, "by", request.By)
	var answer api.Usage
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "usage"}, query: query, answer: &answer, repeatable: true})
	return answer, err
}
