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

// Stats reads what the tenant's jobs did, by steps of time: for charts, because what a killed server had not stored
// yet is missing. At most api.MaxStatsItems steps. It needs a key that is bound to no user.
func (c *Client) Stats(ctx context.Context, request StatsRequest) (api.Stats, error) {
	query := url.Values{}
	set(query, "queue", request.Queue)
	set(query, "step", request.Step)
	setTime(query, "from", request.From)
	setTime(query, "to", request.To)
	var answer api.Stats
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "stats"}, query: query, answer: &answer, repeatable: true})
	return answer, err
}
