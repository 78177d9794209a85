package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Signal tells a live job something under a name, and wakes it if that is what it waits for. A signal that comes before the job waits
// is kept. The first of a name stays: the answer's First is false where there was one, which a repeat after a lost answer finds too.
// Problems: not_found, job_terminal.
func (c *Client) Signal(ctx context.Context, jobID string, signal api.SignalRequest) (api.Signal, error) {
	var answer api.Signal
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "jobs", jobID, "signals"}, body: signal, answer: &answer, repeatable: true})
	return answer, err
}

// CreateSignalLink makes a URL by which a person without a key sends one signal of a job, once, in a browser. Nothing is stored: each
// call makes another. Problems: not_found, job_terminal.
func (c *Client) CreateSignalLink(ctx context.Context, jobID string, link api.SignalLinkRequest) (api.SignalLink, error) {
	var answer api.SignalLink
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "jobs", jobID, "signal-links"}, body: link, answer: &answer, repeatable: true})
	return answer, err
}
