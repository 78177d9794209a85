package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// submission is what the flags of submit say.
type submission struct {
	data, queue, key, user, dedupe string
	priority, attempts             int
	delay, timeout, waitTimeout    time.Duration
	runAt, deadline                instant
	tags, metadata                 []string
	wait                           bool
}

func (a *App) submit() *cobra.Command {
	var f submission
	command := &cobra.Command{
		Use:   "submit TYPE",
		Short: "Submit a job, and wait for its end with --wait",
		Long: `Submit a job of a type. Its payload is JSON, @FILE with JSON in it, or - for standard input.

With --wait the job is followed to its end: exit code 0 when it completed, 1 when it became a dead letter
or was cancelled, 4 when --wait-timeout passed first (the job goes on).`,
		Example: `  forgequeue submit hash.sha256 --data '{"text":"hello"}' --wait
  forgequeue submit report --data @order.json --queue nightly --delay 2h --key order-17
  echo '{"to":"ada"}' | forgequeue submit mail --data - --priority 9 --tag gpu --metadata shop=berlin`,
		Args: one("--data JSON"),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error { return s.submit(ctx, args[0], &f) }),
	}
	flags := command.Flags()
	flags.StringVarP(&f.data, "data", "d", "", "payload: JSON, @FILE or - for standard input (default null)")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default \""+api.DefaultQueue+"\")")
	flags.IntVar(&f.priority, "priority", api.DefaultPriority, "0 to 9, higher first")
	flags.DurationVar(&f.delay, "delay", 0, "start no sooner than after this long, such as 90s")
	flags.Var(&f.runAt, "run-at", "start no sooner than at this time, or after this long")
	flags.Var(&f.deadline, "deadline", "of no use after this time, or after this long; it then becomes a dead letter")
	flags.StringVar(&f.key, "key", "", "Idempotency-Key: the same key and job again get the first answer again")
	flags.StringVar(&f.dedupe, "dedupe-key", "", "answer with the live job that has the same key, if there is one")
	flags.StringVar(&f.user, "user", "", "your own end user for whom the job runs")
	flags.StringArrayVar(&f.tags, "tag", nil, "what a worker must have to be given the job; repeatable")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE, carried along; repeatable")
	flags.IntVar(&f.attempts, "max-attempts", api.DefaultMaxAttempts, "executions that may be spent on it; the queue's setting if not given")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution")
	flags.BoolVar(&f.wait, "wait", false, "wait for the job's end; the exit code is its outcome")
	flags.DurationVar(&f.waitTimeout, "wait-timeout", 0, "wait for at most this long (default: for ever)")
	return command
}

func (s *session) submit(ctx context.Context, jobType string, f *submission) error {
	request, err := f.request(s, jobType)
	if err != nil {
		return err
	}
	var options []client.CallOption
	var replayed bool
	if s.command.Flags().Changed("key") {
		if f.key == "" {
			return usage("--key is empty")
		}
		options = append(options, client.WithIdempotencyKey(f.key), client.WithReplayed(&replayed))
	}
	submitted, err := s.client.Submit(ctx, request, options...)
	if err != nil {
		return err
	}
	for _, warning := range submitted.Warnings {
		s.note("warning: %s", warning)
	}
	if replayed {
		s.note("This key was used before, and is answered as it was then: %s.", submitted.ID)
	}
	if submitted.Deduplicated {
		s.note("A live job with this dedupe key was there already: %s.", submitted.ID)
	}
	if !f.wait && f.waitTimeout == 0 {
		return s.show(submitted, func(t *table) { summaries(t, submitted.JobSummary) })
	}
	job, err := s.await(ctx, submitted.ID, f.waitTimeout, s.spinner())
	if timed, ok := errors.AsType[*exitError](err); ok && timed.code == ExitTimedOut && len(submitted.Warnings) > 0 {
		return &exitError{ExitTimedOut, fmt.Errorf("%w\n  %s", err, strings.Join(submitted.Warnings, "\n  "))}
	}
	if err != nil {
		return err
	}
	if err := s.show(job, func(t *table) { describe(t, job) }); err != nil {
		return err
	}
	return outcome(job)
}

func (f *submission) request(s *session, jobType string) (api.SubmitRequest, error) {
	command := s.command
	request := api.SubmitRequest{
		Type: jobType, Queue: f.queue, Priority: given(command, "priority", f.priority),
		RunAt: f.runAt.at, DelayMS: givenMS(command, "delay", f.delay), Deadline: f.deadline.at,
		MaxAttempts: given(command, "max-attempts", f.attempts), TimeoutMS: givenMS(command, "timeout", f.timeout),
		Tags: f.tags, User: given(command, "user", f.user), DedupeKey: given(command, "dedupe-key", f.dedupe),
	}
	var err error
	if request.Metadata, err = pairs("metadata", f.metadata); err != nil {
		return request, err
	}
	if command.Flags().Changed("data") {
		request.Payload, err = readJSON("data", f.data, s.in, api.MaxPayload)
	}
	return request, err
}
