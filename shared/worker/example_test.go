package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
	"github.com/forgequeue/forgequeue/shared/worker/workertest"
)

type email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

// JobType is the type of the jobs.
func (email) JobType() string { return "email" }

type receipt struct {
	MessageID string `json:"message_id"`
}

var (
	errNoSuchAddress = errors.New("no such address")
	errBusy          = errors.New("the mail server is busy")
)

func send(_ context.Context, mail email) (string, error) {
	if mail.To == "" {
		return "", errNoSuchAddress
	}
	return "m-1", nil
}

// A whole worker: it runs until the process is told to stop, then lets the
// handlers finish, and gives back what it could not. A second signal ends it at once.
func Example() {
	c, err := client.FromEnv()
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Options{Client: c, Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Add(w, func(ctx context.Context, job *worker.Job[email]) (receipt, error) {
		id, err := send(ctx, job.Payload)
		switch {
		case errors.Is(err, errNoSuchAddress):
			return receipt{}, worker.Permanent(err) // never tried again
		case errors.Is(err, errBusy):
			return receipt{}, worker.Snooze(time.Minute) // the attempt is not spent
		}
		return receipt{MessageID: id}, err // an error is tried again, with backoff
	}, worker.WithTimeout(time.Minute))
	if err := w.RunUntilSignal(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// The arguments' type names the type of the jobs; the options are of this handler alone.
func ExampleAdd() {
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		log.Fatal(err)
	}
	worker.Add(w, func(ctx context.Context, job *worker.Job[email]) (receipt, error) {
		id, err := send(ctx, job.Payload)
		return receipt{MessageID: id}, err
	},
		worker.WithTimeout(30*time.Second),
		worker.WithConcurrency(4),
		worker.WithRetry(func(attempt int, _ error) time.Duration { return time.Duration(attempt) * time.Minute }),
	)
	ctx := context.Background()
	fmt.Println(workertest.RunWorker(ctx, w, "email", email{To: "ada@example.com"}))
	fmt.Println(workertest.RunWorker(ctx, w, "email", email{}, workertest.WithAttempt(2)))
	// Output:
	// completed with {"message_id":"m-1"}
	// failed, retried after 2m0s: no such address
}

// A handler's own lines say of which job they are.
func ExampleInfo_Logger() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "job_id" {
				return slog.Attr{} // another one each time
			}
			return a
		},
	}))
	w, err := worker.New(worker.Options{Client: workertest.Client(), WorkerID: "w-1", Logger: logger})
	if err != nil {
		log.Fatal(err)
	}
	worker.Add(w, func(_ context.Context, job *worker.Job[email]) (receipt, error) {
		job.Logger().Info("connecting", "server", "mx.example.com")
		return receipt{}, nil
	})
	workertest.RunWorker(context.Background(), w, "email", email{})
	// Output: level=INFO msg=connecting worker_id=w-1 type=email queue=default attempt=1 server=mx.example.com
}

// A handler gets the payload decoded, and its result is sent as JSON. Here one
// attempt of each is run without a server.
func ExampleHandle() {
	ctx := context.Background()
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle(w, "email", func(ctx context.Context, job *worker.Job[email]) (receipt, error) {
		id, err := send(ctx, job.Payload)
		if errors.Is(err, errNoSuchAddress) {
			return receipt{}, worker.Permanent(err)
		}
		return receipt{MessageID: id}, err
	})
	fmt.Println(workertest.RunWorker(ctx, w, "email", email{To: "ada@example.com", Subject: "Hello"}))
	fmt.Println(workertest.RunWorker(ctx, w, "email", email{}))
	// Output:
	// completed with {"message_id":"m-1"}
	// failed for good: no such address
}

// A refund waits for an approval. The handler is run from the beginning for each claim.
func ExampleWait() {
	type refund struct {
		Order int `json:"order"`
	}
	type approval struct {
		By string `json:"by"`
	}
	handler := func(_ context.Context, job *worker.Job[refund]) (string, error) {
		var approved approval
		switch there, err := job.Signal("approved", &approved); {
		case err != nil:
			return "", err
		case there:
			return "refunded, approved by " + approved.By, nil
		case job.WokenBy == api.WokenByTimeout:
			return "nobody has approved it", nil
		}
		return "", worker.Wait(72*time.Hour, "approved")
	}
	ctx := context.Background()
	fmt.Println(workertest.Run(ctx, handler, refund{1234}))
	fmt.Println(workertest.Run(ctx, handler, refund{1234}, workertest.WithSignal("approved", approval{"ada"})))
	fmt.Println(workertest.Run(ctx, handler, refund{1234}, workertest.WithWaitTimeout()))
	// Output:
	// waits for approved, at most 72h0m0s
	// completed with "refunded, approved by ada"
	// completed with "nobody has approved it"
}

// Middleware sees every job on its way in, and what becomes of it.
func ExampleWorker_Use() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	w, err := worker.New(worker.Options{Client: workertest.Client()})
	if err != nil {
		log.Fatal(err)
	}
	w.Use(func(next worker.HandlerFunc) worker.HandlerFunc {
		return func(ctx context.Context, job *worker.RawJob) (json.RawMessage, error) {
			result, err := next(ctx, job)
			logger.Info("handled", "type", job.Type, "attempt", job.Attempt, "bytes", len(result))
			return result, err
		}
	})
	worker.Handle(w, "greet", func(_ context.Context, job *worker.Job[string]) (string, error) {
		return "Hello, " + job.Payload, nil
	})
	fmt.Println(workertest.RunWorker(context.Background(), w, "greet", "Ada"))
	// Output:
	// level=INFO msg=handled type=greet attempt=1 bytes=12
	// completed with "Hello, Ada"
}
