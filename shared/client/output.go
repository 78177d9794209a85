package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Output gives a page of what a job has said, the oldest first: what came after the piece with
// the ID after, and from the beginning if that is empty. More says that there is more.
func (c *Client) Output(ctx context.Context, jobID, after string) (api.OutputPage, error) {
	query := url.Values{}
	set(query, "after", after)
	var answer api.OutputPage
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "jobs", jobID, "output"}, query: query, answer: &answer, repeatable: true})
	return answer, err
}

// AllOutput gives what a job has said until now after a piece, page by page; Follow waits for what it says then, too.
// A page that cannot be read ends the iteration with its error.
func (c *Client) AllOutput(ctx context.Context, jobID, after string) iter.Seq2[api.Output, error] {
	return func(yield func(api.Output, error) bool) {
		for more := true; more; {
			page, err := c.Output(ctx, jobID, after)
			if err != nil {
				yield(api.Output{}, err)
				return
			}
			for _, piece := range page.Items {
				if !yield(piece, nil) {
					return
				}
				after = piece.ID
			}
			more = page.More && len(page.Items) > 0
		}
	}
}

// AppendOutput appends to a job's output, as the holder of its lease. A chunk whose number was there is left out, so a repeat changes
// nothing. Package worker does it by itself, for what handlers write. Problem: lease_lost. Of the options WithOneTry counts.
func (c *Client) AppendOutput(ctx context.Context, jobID string, output api.OutputRequest, options ...CallOption) (api.OutputAccepted, error) {
	var answer api.OutputAccepted
	var chosen callOptions
	for _, option := range options {
		option(&chosen)
	}
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"v1", "jobs", jobID, "output"}, body: output, answer: &answer, repeatable: true, oneTry: chosen.oneTry,
	})
	return answer, err
}
