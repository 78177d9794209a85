package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Whoami reads what the key is.
func (c *Client) Whoami(ctx context.Context) (api.Whoami, error) {
	var answer api.Whoami
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "whoami"}, answer: &answer, repeatable: true})
	return answer, err
}

// Limits reads the rates and caps that apply to the key, and what is left of each
// now. The call is not charged.
func (c *Client) Limits(ctx context.Context) (api.LimitsResponse, error) {
	var answer api.LimitsResponse
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "limits"}, answer: &answer, repeatable: true})
	return answer, err
}

// ConsoleLink makes a link that signs a browser in to the gateway's console, once, as this key. The
// problem not_found says that the console is off.
func (c *Client) ConsoleLink(ctx context.Context) (api.ConsoleLink, error) {
	var answer api.ConsoleLink
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"console", "links"}, answer: &answer})
	return answer, err
}

// EndSessions signs out every browser that has signed in to the console with the key, at other gateways within 30 s.
func (c *Client) EndSessions(ctx context.Context) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "sessions"}, repeatable: true})
}

// Ready reads the gateway's readiness. Status is ok, or degraded if core or Redis is
// down; Checks has the status of each. A gateway that drains, or whose core has never
// answered yet, gives its answer too, with a StatusError of 503. Ready is tried again
// only when no connection could be made.
func (c *Client) Ready(ctx context.Context) (api.Readiness, error) {
	var answer api.Readiness
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"readyz"}, answer: &answer, alsoDecode: http.StatusServiceUnavailable,
	})
	return answer, err
}
