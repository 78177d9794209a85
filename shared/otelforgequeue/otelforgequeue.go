// Package otelforgequeue makes OpenTelemetry spans around submits and work. It is a
// module of its own, so that the client and the worker need nothing of OpenTelemetry.
//
//	c, err := client.FromEnv(func(o *client.Options) {
//		o.Middleware = append(o.Middleware, otelforgequeue.Submit(nil))
//	})
//	w, err := worker.New(worker.Options{Client: c})
//	w.Use(otelforgequeue.Work(nil))
//
// A job carries the traceparent of the span that submitted it, whatever happens to it
// in between, so that the span of each attempt is that one's child, also in another
// process. Where a service of ForgeQueue exports spans too, its own lie between or beside
// them in the same trace.
package otelforgequeue

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// scope names the spans of this package.
const scope = "github.com/forgequeue/forgequeue/shared/otelforgequeue"

// Submit makes a span "submit TYPE", of kind producer, for each call that submits jobs;
// "submit jobs" for jobs of several types, or of a type that the call does not name.
// It is a child of the span in ctx, else of the one given with
// client.WithTraceparent, and the jobs carry its traceparent. Attributes:
// forgequeue.jobs, the number of jobs; of a single one forgequeue.job.id,
// forgequeue.job.type and forgequeue.job.queue (where they are named). It lasts as
// long as the call with all of its tries, of SubmitAndWait up to 20 s longer.
// provider is OpenTelemetry's global one if nil.
func Submit(provider trace.TracerProvider) func(next client.SubmitFunc) client.SubmitFunc {
	tracer := tracerOf(provider)
	return func(next client.SubmitFunc) client.SubmitFunc {
		return func(ctx context.Context, s *client.Submission) error {
			ctx, span := tracer.Start(
				below(ctx, s.Traceparent), "submit "+typeOf(s), trace.WithSpanKind(trace.SpanKindProducer),
				trace.WithAttributes(attribute.Int("forgequeue.jobs", len(s.Jobs))),
			)
			defer span.End()
			if own := traceparent(ctx); own != "" {
				s.Traceparent = own
			}
			err := next(ctx, s)
			if err != nil {
				span.SetStatus(codes.Error, err.Error())
			}
			if len(s.Jobs) == 1 {
				if jobType := s.Jobs[0].Type; jobType != "" {
					span.SetAttributes(attribute.String("forgequeue.job.type", jobType))
				}
				if queue := s.Jobs[0].Queue; queue != "" {
					span.SetAttributes(attribute.String("forgequeue.job.queue", queue))
				}
				if len(s.IDs) == 1 && s.IDs[0] != "" {
					span.SetAttributes(attribute.String("forgequeue.job.id", s.IDs[0]))
				}
			}
			return err
		}
	}
}

// Work makes a span "process TYPE", of kind consumer, for each attempt: a child of the
// span that submitted the job, or the first of a trace if the job has none. It is in
// the handler's ctx, and in the job's Traceparent, which submits of the handler may hand
// on. An error sets its status, a snooze does not. Attributes: forgequeue.tenant.id,
// job.id, job.type, job.queue, job.attempt and correlation_id. provider is
// OpenTelemetry's global one if nil.
func Work(provider trace.TracerProvider) func(next worker.HandlerFunc) worker.HandlerFunc {
	tracer := tracerOf(provider)
	return func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
			ctx, span := tracer.Start(
				propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: job.Traceparent}), "process "+job.Type,
				trace.WithSpanKind(trace.SpanKindConsumer), trace.WithAttributes(
					attribute.String("forgequeue.tenant.id", job.Tenant),
					attribute.String("forgequeue.job.id", job.ID),
					attribute.String("forgequeue.job.type", job.Type),
					attribute.String("forgequeue.job.queue", job.Queue),
					attribute.Int("forgequeue.job.attempt", job.Attempt),
					attribute.String("forgequeue.correlation_id", job.CorrelationID),
				),
			)
			returned := false
			defer func() {
				if !returned { // a panic, or Goexit: the worker reports it
					span.SetStatus(codes.Error, "the handler did not return")
				}
				span.End()
			}()
			own := *job
			if of := traceparent(ctx); of != "" {
				own.Traceparent = of
			}
			result, err := next(ctx, &own)
			returned = true
			if err != nil && !worker.Snoozed(err) {
				span.SetStatus(codes.Error, err.Error())
			}
			return result, err
		}
	}
}

func tracerOf(provider trace.TracerProvider) trace.Tracer {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	return provider.Tracer(scope)
}

// header is the traceparent's name in W3C Trace Context.
const header = "traceparent"

// below is ctx if it has a span, else ctx below the one that a traceparent names.
func below(ctx context.Context, parent string) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{header: parent})
}

// traceparent names the span of ctx; empty if there is none.
func traceparent(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[header]
}

// typeOf is the one type of a submission's jobs, else "jobs".
func typeOf(s *client.Submission) string {
	if len(s.Jobs) == 0 || s.Jobs[0].Type == "" {
		return "jobs"
	}
	for _, job := range s.Jobs {
		if job.Type != s.Jobs[0].Type {
			return "jobs"
		}
	}
	return s.Jobs[0].Type
}
