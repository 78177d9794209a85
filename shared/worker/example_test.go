package worker_test

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

type email struct {
	To      string `json:"to"`
	Subject string `json:"subject"`
}

type receipt struct {
	SentAt time.Time `json:"sent_at"`
}

var (
	errNoSuchAddress = errors.New("no such address")
	errBusy          = errors.New("the mail server is busy")
)

func send(context.Context, email) error { return nil }

// A whole worker: it runs until the process is told to stop, then lets the
// handlers finish, and gives back what it could not.
func Example() {
	c, err := client.New(client.Options{URL: os.Getenv("FORGEQUEUE_URL"), APIKey: os.Getenv("FORGEQUEUE_API_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	w, err := worker.New(worker.Options{Client: c, Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worker.Handle(w, "email", func(ctx context.Context, job *worker.Job[email]) (receipt, error) {
		switch err := send(ctx, job.Payload); {
		case errors.Is(err, errNoSuchAddress):
			return receipt{}, worker.Permanent(err)
		case errors.Is(err, errBusy):
			return receipt{}, worker.Snooze(time.Minute)
		case err != nil:
			return receipt{}, err // tried again, with backoff
		}
		return receipt{SentAt: time.Now()}, nil
	})
	if err := w.Run(ctx); err != nil {
		log.Print(err)
	}
}
