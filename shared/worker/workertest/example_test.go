package workertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

type account struct {
	Email string `json:"email"`
}

type sent struct {
	To string `json:"to"`
	No int    `json:"no"`
}

var errNoSuchAddress = errors.New("no such address")

// welcome is the handler to be tested.
func welcome(ctx context.Context, job *worker.Job[account]) (sent, error) {
	switch job.Payload.Email {
	case "":
		return sent{}, worker.Permanent(errNoSuchAddress)
	case "later@example.com":
		return sent{}, worker.Snooze(time.Minute)
	case "busy@example.com":
		return sent{}, worker.RetryAfter(errors.New("the mail server is busy"), 10*time.Second)
	case "nobody@example.com":
		return sent{To: job.Tags[0]}, nil // it has none: a mistake
	case "slow@example.com":
		<-ctx.Done()
		return sent{}, ctx.Err()
	}
	return sent{To: job.Payload.Email, No: job.Attempt}, nil
}

func ExampleRun() {
	ctx := context.Background() // in a test: t.Context()
	got := workertest.Run(ctx, welcome, account{Email: "ada@example.com"}, workertest.WithAttempt(2))
	fmt.Println(got.Completed(), got.Result.To, got.Result.No)
	fmt.Println(got)
	// Output:
	// true ada@example.com 2
	// completed with {"to":"ada@example.com","no":2}
}

// invoice names the type and the options of its jobs.
type invoice struct {
	No int `json:"no"`
}

func (invoice) JobType() string { return "invoice" }

func (invoice) JobOptions() client.JobOptions { return client.JobOptions{Queue: "billing"} }

func bill(_ context.Context, job *worker.Job[invoice]) (string, error) {
	return fmt.Sprintf("%s %d, attempt %d in %s", job.Type, job.Payload.No, job.Attempt, job.Queue), nil
}

// Arguments make the job as client.Submit would; the result has the handler's type.
func ExampleRun_arguments() {
	got := workertest.Run(context.Background(), bill, invoice{No: 7}, workertest.WithAttempt(3))
	fmt.Println(got.Result)
	// Output: invoice 7, attempt 3 in billing
}

// An outcome tells in one line what becomes of the job.
func ExampleRun_errors() {
	ctx := context.Background()
	for _, email := range []string{"", "later@example.com", "busy@example.com", "nobody@example.com"} {
		fmt.Println(workertest.Run(ctx, welcome, account{Email: email}))
	}
	got := workertest.Run(ctx, welcome, account{})
	fmt.Println(got.Permanent, errors.Is(got.Err, errNoSuchAddress), got.Error.Type)
	// Output:
	// failed for good: no such address
	// snoozed for 1m0s
	// failed, retried after 10s: the mail server is busy
	// panicked: runtime error: index out of range [0] with length 0
	// true true error
}

// What ends a handler's context, and what comes of it.
func ExampleRun_context() {
	ctx, slow := context.Background(), account{Email: "slow@example.com"}
	fmt.Println(workertest.Run(ctx, welcome, slow, workertest.WithTimeout(time.Millisecond)))
	fmt.Println(workertest.Run(ctx, welcome, slow, workertest.CancelAfter(0)))
	fmt.Println(workertest.Run(ctx, welcome, slow, workertest.StopAfter(0)))
	fmt.Println(workertest.Run(ctx, welcome, slow, workertest.LoseLeaseAfter(time.Millisecond)))
	// Output:
	// failed: the attempt has used up its time: context deadline exceeded
	// failed: the job's cancellation was asked for: context canceled
	// released: the worker is stopping: context canceled
	// no outcome: the lease is lost: context canceled
}

// A worker as the program makes it, with its middleware and all of its handlers.
func ExampleRunWorker() {
	w, err := worker.New(worker.Options{Client: workertest.Client(), Queues: []string{"mail"}, WorkerID: "mailer-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	w.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
			fmt.Println("for", job.Metadata["campaign"])
			return next(ctx, job)
		}
	})
	worker.Handle(w, "welcome", welcome)

	ctx := context.Background()
	fmt.Println(workertest.RunWorker(ctx, w, "welcome", account{Email: "ada@example.com"}, workertest.WithMetadata("campaign", "spring")))
	fmt.Println(workertest.RunWorker(ctx, w, "farewell", nil))
	// Output:
	// for spring
	// completed with {"to":"ada@example.com","no":1}
	// snoozed for 30s: worker mailer-1 has no handler for type "farewell"
}
