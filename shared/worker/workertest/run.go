package workertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/worker"
)

// Type is the type of the jobs that Run makes of an input that names none.
const Type = "workertest"

// Run runs fn for one attempt at a job with input as its payload, and returns what
// the server would be sent. It returns when fn does. The attempt is the first of
// three, in the queue "default", without a timeout, unless options say otherwise. An
// input that names its job's type (client.JobArgs) makes such a job, with its own
// options, as client.Submit would.
func Run[In, Out any](
	ctx context.Context, fn func(ctx context.Context, job *worker.Job[In]) (Out, error), input In, options ...Option,
) Outcome[Out] {
	w, err := worker.New(worker.Options{Client: Client()})
	if err != nil {
		return broken[Out](err)
	}
	s, err := newSetting(Type, input, options)
	if err != nil {
		return broken[Out](err)
	}
	worker.Handle(w, s.job.Type, fn)
	for _, middleware := range s.middleware {
		w.Use(middleware)
	}
	return attempt[Out](ctx, w, s)
}

// RunWorker is Run for a worker with its own handlers and middleware; jobType
// picks the handler, and a type without one is snoozed, as in production; if it is
// empty, input names it (client.JobArgs). The worker is not started, and can be used for
// any number of attempts. The result stays JSON.
func RunWorker(ctx context.Context, w *worker.Worker, jobType string, input any, options ...Option) Outcome[json.RawMessage] {
	s, err := newSetting(jobType, input, options)
	if err == nil && len(s.middleware) > 0 {
		err = errors.New("workertest: WithMiddleware is for Run; a worker has its own middleware")
	}
	if err != nil {
		return broken[json.RawMessage](err)
	}
	return attempt[json.RawMessage](ctx, w, s)
}

func attempt[Out any](ctx context.Context, w *worker.Worker, s *setting) Outcome[Out] {
	ctx, cancel := context.WithCancelCause(context.WithValue(ctx, parentsKey{}, s.parents))
	defer cancel(nil)
	disarm := arm(s.ends, cancel)
	defer disarm()
	request, reported, said, err := w.AttemptOutput(ctx, s.job)
	outcome := newOutcome[Out](request, err)
	outcome.Progress, outcome.Checkpoint, outcome.Output = reported.Progress, reported.Checkpoint, said
	return outcome
}

// arm starts the timers that end the handler's context; disarm stops those that
// have not fired.
func arm(ends []end, cancel context.CancelCauseFunc) (disarm func()) {
	var timers []*time.Timer
	for _, e := range ends {
		if e.after <= 0 { // before the handler starts, not soon after
			cancel(e.cause)
			continue
		}
		timers = append(timers, time.AfterFunc(e.after, func() { cancel(e.cause) }))
	}
	return func() {
		for _, timer := range timers {
			timer.Stop()
		}
	}
}

// payload writes the input as the client does.
func payload(input any) (json.RawMessage, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(input); err != nil {
		return nil, fmt.Errorf("workertest: the input cannot be written as JSON: %w", err)
	}
	text := bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
	if len(text) > api.MaxPayload {
		return nil, fmt.Errorf("workertest: the input has %d bytes as JSON, and a payload may have %d", len(text), api.MaxPayload)
	}
	return text, nil
}

var errNoServer = errors.New("workertest: there is no server")

// Client is a client of no server: each call fails at once, but for Parents in an
// attempt whose options have parents. It is for code that makes a worker and needs a
// client for it.
func Client() *client.Client {
	c, err := client.New(client.Options{
		URL: "http://workertest.invalid", APIKey: "workertest", HTTPClient: &http.Client{Transport: nowhere{}},
	})
	if err != nil {
		panic(err) // the options are constants that client.New takes
	}
	return c
}

type nowhere struct{}

func (nowhere) RoundTrip(request *http.Request) (*http.Response, error) {
	if answer := parentsAnswer(request); answer != nil {
		return answer, nil
	}
	return nil, errNoServer
}
