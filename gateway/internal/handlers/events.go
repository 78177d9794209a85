package handlers

import (
	"context"
	"errors"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
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

// JobEvents follows one job for an event stream.
type JobEvents struct {
	h   *Handlers
	c   *call.Call
	job api.Job
}

// StreamEvents begins to follow a job. A malformed, unknown or foreign id is 404.
//
//	@Summary     Stream a job's events
//	@Description Server-Sent Events: the job as it is at once, and again at each change of its state, attempt or progress (`event: job`); when it has ended, `event: end` with the job, and the stream is closed. A job that has ended before has `end` alone. Changes that follow each other fast may be one event.
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
	return &JobEvents{h: h, c: c, job: job}, err
}

// Changes gives the job as it is, and then after each change. It is closed when ctx ends, and when the stream is over:
// the gateway or core shuts down, the job is gone, or the key is no longer valid. The receiver has to take all until then.
func (e *JobEvents) Changes(ctx context.Context) <-chan api.Job {
	changes := make(chan api.Job)
	go func() {
		defer close(changes)
		ctx, release := e.h.whileKeyIsGood(ctx, e.c)
		defer release()
		for job, over := e.job, false; !over; job, over = e.next(ctx, job) {
			select {
			case changes <- job:
			case <-ctx.Done():
				return
			}
			if Ended(job.State) {
				return
			}
		}
	}()
	return changes
}

// next waits until the job is another than the one given. While core cannot be asked it tries again.
func (e *JobEvents) next(ctx context.Context, last api.Job) (_ api.Job, over bool) {
	version := last.Version()
	for {
		begun := time.Now()
		job, err := e.h.waitVersion(ctx, e.c, last.ID, version)
		switch {
		case err == nil && job.Version() != version:
			return job, false
		case err == nil && time.Since(begun) >= api.MaxWait-time.Second:
			continue
		case err == nil, ctx.Err() != nil, errors.Is(err, coreclient.ErrCutShort) && e.h.core.IsDraining():
			return job, true // core drains, or nobody reads any more, or this gateway drains
		}
		if p, ok := problem.From(err); ok && p.Code == problem.NotFound {
			return job, true
		}
		coreclient.ShortWait(ctx, api.MaxWait)
		if job, err = e.h.read(ctx, e.c, last.ID); err == nil && job.Version() != version {
			return job, false
		}
	}
}

// waitVersion asks core to answer when the job has another version than this one, or after api.MaxWait.
func (h *Handlers) waitVersion(ctx context.Context, c *call.Call, id, version string) (api.Job, error) {
	c.Wait = api.MaxWait
	defer func() { c.Wait = 0 }()
	answer, err := call.SendAs(ctx, h.core, c, hop.WaitForJob, coreclient.How{Parked: true},
		hop.WaitForJobRequest{ID: id, WaitMS: api.MaxWait.Milliseconds(), Version: version})
	return answer.Value, err
}
