package otelforgequeue_test

import (
	"context"
	"fmt"

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
