package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Redrives and discards of all dead letters that match a filter run in the server, in
// batches. They go on without the caller, until they are done or cancelled.

// RedriveMatching begins to queue again all dead letters that match now; later ones
// are not included. rate is how many at most in a second; 0: the server chooses. Not
// repeated once it may have been written: look at Redrives.
func (c *Client) RedriveMatching(ctx context.Context, filter api.DeadLetterFilter, rate float64) (api.Redrive, error) {
	return settleMatching[api.Redrive](ctx, c, "redrive", api.DeadLetterRequest{}, filter, rate)
}

// RedriveWithCanary is RedriveMatching that queues a sample first: the server continues
// with the others once enough of the sample completed. Where not, the redrive's state
// is stopped, and its canary has the reason.
func (c *Client) RedriveWithCanary(ctx context.Context, filter api.DeadLetterFilter, rate float64, canary api.CanaryRequest) (api.Redrive, error) {
	return settleMatching[api.Redrive](ctx, c, "redrive", api.DeadLetterRequest{Canary: &canary}, filter, rate)
}

// DiscardMatching begins to delete all dead letters that match now; otherwise like
// RedriveMatching.
func (c *Client) DiscardMatching(ctx context.Context, filter api.DeadLetterFilter, rate float64) (api.Redrive, error) {
	return settleMatching[api.Redrive](ctx, c, "discard", api.DeadLetterRequest{}, filter, rate)
}

// CountMatching counts the dead letters that match now, and changes nothing.
func (c *Client) CountMatching(ctx context.Context, filter api.DeadLetterFilter) (api.Matched, error) {
	return settleMatching[api.Matched](ctx, c, "redrive", api.DeadLetterRequest{DryRun: true}, filter, 0)
}

func settleMatching[T any](ctx context.Context, c *Client, verb string, request api.DeadLetterRequest, filter api.DeadLetterFilter, rate float64) (T, error) {
	request.Filter = filter.Body()
	if rate > 0 {
		request.RatePerSecond = &rate
	}
	return settleDead[T](ctx, c, verb, request)
}

// GetRedrive reads the progress of a redrive or a discard.
func (c *Client) GetRedrive(ctx context.Context, id string) (api.Redrive, error) {
	var answer api.Redrive
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "redrives", id}, answer: &answer, repeatable: true})
	return answer, err
}

// Redrives gives one page of redrives and discards by filter, newest first.
func (c *Client) Redrives(ctx context.Context, page PageRequest) (api.Page[api.Redrive], error) {
	return list[api.Redrive](ctx, c, page.query(), "redrives")
}

// CancelRedrive ends a redrive or a discard: after its answer no more jobs are changed;
// those already changed stay so. One that has ended is not changed. A repeat changes
// nothing.
func (c *Client) CancelRedrive(ctx context.Context, id string) (api.Redrive, error) {
	var answer api.Redrive
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "redrives", id, "cancel"}, answer: &answer, repeatable: true})
	return answer, err
}

// DeadLetterGroups gives the largest groups of dead letters that match, largest first,
// at most size of them (0 for the server's 50): those of one fingerprint in one queue.
func (c *Client) DeadLetterGroups(ctx context.Context, filter api.DeadLetterFilter, size int) (api.DeadLetterGroups, error) {
	var answer api.DeadLetterGroups
	query := PageRequest{Size: size}.query()
	setDeadLetters(query, filter)
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"v1", "dead-letters", "groups"}, query: query, answer: &answer, repeatable: true,
		maxAnswer: maxAnswer + api.MaxPageSize*maxListed,
	})
	return answer, err
}

func setDeadLetters(query url.Values, filter api.DeadLetterFilter) {
	set(query, "queue", filter.Queue)
	set(query, "type", filter.Type)
	set(query, "reason", filter.Reason)
	set(query, "fingerprint", filter.Fingerprint)
	setTime(query, "after", filter.After)
	setTime(query, "before", filter.Before)
}
