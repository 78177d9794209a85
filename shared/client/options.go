package client

import (
	"crypto/rand"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// CallOption changes one call.
type CallOption func(*callOptions)

type callOptions struct {
	idempotencyKey string
	correlationID  string
	traceparent    string
	replayed       *bool
	oneTry         bool
}

// WithIdempotencyKey takes the place of the key that the client would draw: 1 to
// 255 visible ASCII characters; empty draws one. The same key with the same body
// gets the first call's answer again, also after this process has ended; with
// another body it is refused with 422 idempotency_mismatch.
func WithIdempotencyKey(key string) CallOption {
	return func(o *callOptions) { o.idempotencyKey = key }
}

// WithCorrelationID sets the correlation id of the jobs: 1 to 128 printable ASCII
// characters. Every job carries it, to its worker and into the logs; without one
// the server gives each submit its own. In a handler, pass on the job's own:
//
//	c.Submit(ctx, next, client.WithCorrelationID(job.CorrelationID), client.WithTraceparent(job.Traceparent))
//
// Empty is none. A value that is not valid in a header is left out, because tracing
// must not fail a submit.
func WithCorrelationID(id string) CallOption {
	return func(o *callOptions) { o.correlationID = sendable(id) }
}

// WithTraceparent says which span submits the jobs (W3C Trace Context, section
// 3.2), such as "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". Every
// job carries it to its worker. Empty is none; the server leaves out what is
// malformed.
func WithTraceparent(traceparent string) CallOption {
	return func(o *callOptions) { o.traceparent = sendable(traceparent) }
}

// WithReplayed sets *replayed to whether the submit was answered with the replay of
// its Idempotency-Key (Idempotent-Replayed), and stored nothing; a submit that fails
// sets it to false. It is true for a key that was used before, and if an earlier
// try of this same call was stored, but its answer was lost.
func WithReplayed(replayed *bool) CallOption {
	return func(o *callOptions) { o.replayed = replayed }
}

// WithOneTry makes the call once, for a caller that repeats it by itself, with the
// same WithIdempotencyKey: then the error is about that one request.
func WithOneTry() CallOption {
	return func(o *callOptions) { o.oneTry = true }
}

// sendable is text, or "" if the server would not accept it in a header.
func sendable(text string) string {
	if !api.ValidLabel(text) {
		return ""
	}
	return text
}

// choose applies the options, and draws an Idempotency-Key of at least 128 random
// bits where none is given. A key that no header can carry is refused here, like
// the server refuses others: net/http would fail every try.
func choose(options []CallOption) (callOptions, error) {
	var chosen callOptions
	for _, option := range options {
		option(&chosen)
	}
	if chosen.idempotencyKey == "" {
		chosen.idempotencyKey = rand.Text()
	}
	if strings.ContainsFunc(chosen.idempotencyKey, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return chosen, problem.New(problem.IdempotencyKeyInvalid, "client: an Idempotency-Key has 1 to 255 visible ASCII characters")
	}
	return chosen, nil
}
