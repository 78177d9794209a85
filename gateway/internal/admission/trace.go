package admission

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// Trace makes each call of Redis a span of the request that it is for. Calls for no
// request (probes, hints, pings) make none. A nil provider changes nothing. It must
// be called before the first call.
func (r *Redis) Trace(provider trace.TracerProvider) error {
	if provider == nil || r.client == nil {
		return nil
	}
	r.traced = true
	return r.client.Trace(provider)
}

// spanned gives the context of a flush the span of the first of its requests whose spans
// are recorded: one call is made for all of them, and a span has one parent.
func (l *Limiter) spanned(ctx context.Context, questions []question) context.Context {
	if l.traced {
		for _, q := range questions {
			if q.span.IsRecording() {
				return trace.ContextWithSpan(ctx, q.span)
			}
		}
	}
	return ctx
}
