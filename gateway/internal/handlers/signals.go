package handlers

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// signalLinkLife is how long a link is good by default.
const signalLinkLife = 7 * 24 * time.Hour

// SignalJob signals a job.
//
//	@Description Tells a live job something from outside, under a name, with data of up to 64 KiB. If the job waits for it, it is queued again. A signal that comes before the job waits is kept until the job ends. Of signals of one name the first stays: a repeat is answered with `first` false, and changes nothing. A job has signals of at most 100 names.
//	@Param       signal body api.SignalRequest true "The name and the data."
//	@Success     202 {object} api.Signal "The signal is stored."
//	@x-problems  ["job_terminal"]
//	@x-example-approved {"name": "approved", "data": {"by": "ada"}}
func (h *Handlers) SignalJob(ctx context.Context, c *call.Call, r api.SignalRequest) (call.Response[api.Signal], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.Signal]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.Signal]{}, problem.Invalid(fields...)
	}
	return h.signal(ctx, c, id, r)
}

func (h *Handlers) signal(ctx context.Context, c *call.Call, id string, signal api.SignalRequest) (call.Response[api.Signal], error) {
	answer, err := call.Send(ctx, h.core, c, hop.SignalJob, hop.SignalJobRequest{ID: id, Signal: signal})
	if err != nil {
		return call.Response[api.Signal]{}, err
	}
	return call.Response[api.Signal]{Status: http.StatusAccepted, Value: answer.Value}, nil
}

// CreateSignalLink makes a link that sends a signal.
//
//	@Description A URL by which a person without a key sends this one signal of this one job, once: for an approval in a mail or a chat. Opened in a browser it shows a page with the title and a button; only the button sends, so what looks at links before their reader does changes nothing. The signal's data is `{"comment": "…"}` where the reader wrote one. The link is signed, not stored: it is good until `expires_at` (7 days by default, 366 at most), and for as long as the key that made it is. Links begin with `FORGEQUEUE_PUBLIC_URL`, or as this request's URL does.
//	@Param       link body api.SignalLinkRequest true "The signal's name, the title of the page, and how long it is good."
//	@Success     201 {object} api.SignalLink "The link."
//	@x-problems  ["job_terminal"]
//	@x-example-approve {"name": "approved", "title": "Refund order 1234?", "expires_ms": 259200000}
func (h *Handlers) CreateSignalLink(ctx context.Context, c *call.Call, r api.SignalLinkRequest) (call.Response[api.SignalLink], error) {
	id, err := c.ID()
	if err != nil {
		return call.Response[api.SignalLink]{}, err
	}
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.SignalLink]{}, problem.Invalid(fields...)
	}
	job, err := h.read(ctx, c, id)
	if err != nil {
		return call.Response[api.SignalLink]{}, err
	}
	if job.FinishedAt != nil {
		return call.Response[api.SignalLink]{}, problem.New(problem.JobTerminal, "The job has ended, and gets no more signals.")
	}
	life := signalLinkLife
	if r.ExpiresMS != nil {
		life = time.Duration(*r.ExpiresMS) * time.Millisecond
	}
	expires := time.Now().Add(life).Truncate(time.Millisecond)
	token := h.auth.SignalToken(auth.SignalLink{
		KeyID: c.Principal().KeyID, Job: id, Name: r.Name, Title: cmp.Or(r.Title, r.Name), Expires: expires.UnixMilli(),
	})
	return call.Response[api.SignalLink]{Status: http.StatusCreated, Value: api.SignalLink{
		URL: cmp.Or(h.publicURL, c.Origin()) + h.linkPath + token, ExpiresAt: api.At(expires),
	}}, nil
}

// GetSignalLink reads what a link sends.
//
//	@Description What the link would send. It needs no key, and changes nothing.
//	@Success     200 {object} api.LinkedSignal "The signal."
func (*Handlers) GetSignalLink(_ context.Context, c *call.Call, _ call.None) (call.Response[api.LinkedSignal], error) {
	return call.Response[api.LinkedSignal]{Value: api.LinkedSignal{
		JobID: c.Link.Job, Name: c.Link.Name, Title: c.Link.Title, ExpiresAt: api.At(time.UnixMilli(c.Link.Expires)),
	}}, nil
}

// UseSignalLink sends the signal of a link.
//
//	@Description Sends the signal, without a key. It is sent once: a second time is answered with `first` false, and changes nothing.
//	@Param       signal body api.LinkedSignalRequest false "The signal's data."
//	@Success     202 {object} api.Signal "The signal is stored."
//	@x-problems  ["job_terminal"]
//	@x-example-comment {"data": {"comment": "fine with me"}}
func (h *Handlers) UseSignalLink(ctx context.Context, c *call.Call, r api.LinkedSignalRequest) (call.Response[api.Signal], error) {
	if fields := r.Validate(); len(fields) > 0 {
		return call.Response[api.Signal]{}, problem.Invalid(fields...)
	}
	return h.signal(ctx, c, c.Link.Job, api.SignalRequest{Name: c.Link.Name, Data: r.Data})
}
