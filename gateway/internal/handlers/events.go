package handlers

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
)

// CreateEventsToken makes a token for a job's events.
//
//	@Description A token that opens the event stream of this one job, as `GET /v1/jobs/{id}/events?token=…`, for 60 s; a stream that is open goes on. It is for a browser's `EventSource`, which cannot send the key: your server makes the token, the browser opens the stream.
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

// JobEvents is one event stream of a job.
type JobEvents struct {
	h     *Handlers
	c     *call.Call
	id    string
	first Event
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
func (h *Handlers) StreamEvents(ctx context.Context, c *call.Call) (*JobEvents, error) {
	id, err := c.ID()
	if err != nil {
		return nil, err
	}
	job, err := h.read(ctx, c, id)
	if err != nil {
		return nil, err
	}
	first, err := newEvent(&job)
	return &JobEvents{h: h, c: c, id: id, first: first}, err
}

// Changes gives the job as it is, and then after each change, at most once in each interval; who receives more slowly
// gets the newest. It is closed when ctx ends, after the job's end, and when the stream is over: the gateway or core
// shuts down, the job is gone, or the key is no longer valid. The receiver has to take all until then.
func (e *JobEvents) Changes(ctx context.Context) <-chan Event {
	changes := make(chan Event)
	go func() {
		defer close(changes)
		ctx, release := e.h.whileKeyIsGood(ctx, e.c)
		defer release()
		e.pass(ctx, changes)
	}()
	return changes
}

// pass passes events on. Each stream writes at its own moment within an event's spread; the first event and the end are
// passed on at once.
func (e *JobEvents) pass(ctx context.Context, changes chan<- Event) {
	event := e.first
	e.first = Event{} // its memory is needed only until it is written
	var f *follower
	var next <-chan struct{}
	if !event.Ended {
		f, next = e.h.join(ctx, e.c, e.id, event.version)
		defer f.leave(e.c)
	}
	moment, written := rand.Float64(), "" //nolint:gosec // spreads load, guards nothing
	to := changes                         // nil while there is nothing to pass on
	var later <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case to <- event:
			if event.Ended {
				return
			}
			to, written, event = nil, event.version, Event{}
		case <-later:
			to, later = changes, nil
		case <-next:
			event = f.latest()
			next = event.next
			switch {
			case event.over:
				return
			case event.version == written:
				to, later = nil, nil
			case event.Ended:
				to, later = changes, nil
			case to == nil && later == nil:
				later = time.After(time.Duration(moment * float64(event.spread)))
			}
		}
	}
}
