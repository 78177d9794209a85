// Command load loads a Hatchet engine by Hatchet's own Go SDK, for e2e/bench, which copies it and load.go into a copy of
// Hatchet's source and builds it there. It takes orders from its input, and answers on its output.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	v0 "github.com/hatchet-dev/hatchet/pkg/client"
	hatchet "github.com/hatchet-dev/hatchet/sdks/go"
	"github.com/rs/zerolog"
)

type input struct {
	N int `json:"n"`
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

func run() error {
	answers := os.Stdout
	os.Stdout = os.Stderr // what the SDK prints is no answer
	log.SetOutput(io.Discard)
	zerolog.SetGlobalLevel(zerolog.ErrorLevel)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client, err := hatchet.NewClient()
	if err != nil {
		return err
	}
	var l loader
	task := client.NewStandaloneTask("noop", func(_ hatchet.Context, in input) (input, error) {
		l.started(in.N)
		return in, nil
	})
	// RunMany of the SDK sends its runs one by one; this is the call that takes many.
	bulk, err := v0.New()
	if err != nil {
		return err
	}
	l.submit = func(ctx context.Context, n int) error {
		_, err := task.RunNoWait(ctx, input{n})
		return err
	}
	l.batch = func(_ context.Context, from, end int) error {
		var runs []*v0.WorkflowRun
		for n := from; n < end; n++ {
			runs = append(runs, &v0.WorkflowRun{Name: "noop", Input: input{n}})
		}
		_, err := bulk.Admin().BulkRunWorkflow(runs)
		return err
	}
	worker, err := client.NewWorker("load", hatchet.WithWorkflows(task), hatchet.WithSlots(1000))
	if err != nil {
		return err
	}
	go func() {
		if err := worker.StartBlocking(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
		}
	}()
	return l.serve(ctx, os.Stdin, answers)
}
