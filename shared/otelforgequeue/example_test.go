package otelforgequeue_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/otelforgequeue"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

// A worker whose attempts are spans; with a provider of nil they go to OpenTelemetry's
// global one.
func ExampleWork() {
	spans, provider := recorder() // in a program: nil, or your TracerProvider
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Use(otelforgequeue.Work(provider))
	worker.Add(w, func(context.Context, *worker.Job[email]) (string, error) { return "sent", nil })
	fmt.Println(workertest.RunWorker(context.Background(), w, "", email{To: "ada@example.com"}))
	fmt.Println(spans.Ended()[0].Name())
	// Output:
	// completed with "sent"
	// process email
}

// Without this package: a handler's own spans go below the one that submitted the job.
func Example_withoutMiddleware() {
	c, err := client.New(client.Options{URL: "http://127.0.0.1:8080", APIKey: "fq_live_…"})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Options{Client: c, Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle(w, "send", func(ctx context.Context, job *worker.Job[string]) (string, error) {
		parent := propagation.MapCarrier{"traceparent": job.Traceparent}
		ctx, span := otel.Tracer("mailer").Start(propagation.TraceContext{}.Extract(ctx, parent), "send mail")
		defer span.End()
		return "sent", ctx.Err()
	})
}
