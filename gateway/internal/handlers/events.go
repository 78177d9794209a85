package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/jobevents"
	"github.com/forgequeue/forgequeue/shared/api"
)

// CreateEventsToken makes a token for a job's events.
//
//	@Description A token that opens the event stream of this one job, as `GET /v1/jobs/{id}/events?token=…`, for 60 s; an open stream stays open. It is for a browser's `EventSource`, which cannot send the key: your server makes the token, the browser opens the stream.
//	@Success     200 {object} api.EventsToken "The token."
func (h *Handlers) CreateEventsToken(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.EventsToken], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.EventsToken]{}, err
	}
	if _, err := h.read(ctx, c, id); err != nil {
		return call.Response[api.EventsToken]{}, err
	}
	token, expires := h.auth.EventsToken(c.Principal().KeyID, id)
	return call.Response[api.EventsToken]{Value: api.EventsToken{Token: token, ExpiresAt: api.Time{Time: expires}}}, nil
}

// StreamEvents begins to follow a job. A malformed, unknown or foreign id is 404.
//
//	@Summary     Stream a job's events
//	@Description Server-Sent Events: the job as it is at once, and again at each change of its state, attempt or progress (`event: job`); when it has ended, `event: end` with the job, and the stream is closed. A job that has ended before has `end` alone. Changes that follow each other fast are one event: a stream has about four a second at most, and fewer where very many streams have events; the last state and `end` always arrive.
//	@Description
//	@Description After 15 minutes at most, or where the server shuts down, comes `event: again`: open the stream again, it begins with the job as it is. A comment every 15 s keeps the connection open. A client that does not read is disconnected after 10 s. With `token` no key is needed, see `POST /v1/jobs/{id}/events-token`; at `end` and `again` call `close()` on the `EventSource`, or it connects again by itself.
//	@ID          streamJobEvents
//	@Tags        Jobs
//	@Param       id    path  string true  "The job's id." Format(uuid)
//	@Param       token query string false "A token of `POST /v1/jobs/{id}/events-token`, instead of the key."
//	@Produce     event-stream
//	@Success     200 {string} string "The events, each with a job as data."
//	@x-access    "read"
//	@Router      /v1/jobs/{id}/events [get]
func (h *Handlers) StreamEvents(ctx context.Context, c *call.Call) (*jobevents.Stream, error) {
	id, err := c.ID()
	if err != nil {
		return nil, err
	}
	job, err := h.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	return h.streams.Open(c, id, &job)
}
