package jobs

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// change is the flags of job change.
type change struct {
	data, queue, ifMatch string
	priority, attempts   int
	delay                time.Duration
	runAt, deadline      cli.Instant
	tags, metadata       []string
}

func newJobChange(a *cli.App) *cobra.Command {
	var f change
	command := &cobra.Command{
		Use:   "change ID",
		Short: "Change a job that waits",
		Long: `Change a job that has not started; what no flag names stays. It keeps its place in the queue by age. A job that runs, or has
ended, is refused with job_started: run an ended one again with job rerun. With --if-match only the version is changed
that job get has shown; if the job is another one by now, precondition_failed.`,
		Example: `  forgequeue job change "$ID" --priority 9 --queue nightly
  forgequeue job change "$ID" --data @order.json --run-at 30m --metadata shop=berlin`,
		Args: cli.One("--priority 9"),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			patch, err := f.patch(s)
			if err != nil {
				return err
			}
			changed := s.Client.PatchJob
			if s.Command.Flags().Changed("if-match") {
				changed = func(ctx context.Context, id string, patch api.JobPatch) (api.Job, error) {
					return s.Client.PatchJobIf(ctx, id, f.etag(), patch)
				}
			}
			job, err := changed(ctx, args[0], patch)
			if err != nil {
				return err
			}
			return s.Show(job, func(t *cli.Table) { describe(t, job) })
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&f.data, "data", "d", "", "payload: JSON, @FILE or - for standard input")
	flags.StringVarP(&f.queue, "queue", "q", "", "the queue that it moves to")
	flags.IntVar(&f.priority, "priority", 0, "0 to 9, higher first")
	flags.DurationVar(&f.delay, "delay", 0, "start no sooner than after this long, such as 90s; 0 starts it now")
	flags.Var(&f.runAt, "run-at", "start no sooner than at this time, or after this long")
	flags.Var(&f.deadline, "deadline", "becomes a dead letter if it has not ended by this time, or within this long")
	flags.IntVar(&f.attempts, "max-attempts", 0, "executions that may be spent on it, more than it has used")
	flags.StringArrayVar(&f.tags, "tag", nil, "what a worker must have, instead of all old tags; repeatable; \"\" for none")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE, instead of all old ones; repeatable; \"\" for none")
	flags.StringVar(&f.ifMatch, "if-match", "", "change only the version with this ETag, as job get shows it")
	return command
}

// patch is what the flags change: one of them at least.
func (f *change) patch(s *cli.Session) (patch api.JobPatch, err error) {
	flags, names := 0, "data queue priority delay run-at deadline max-attempts tag metadata"
	s.Command.Flags().Visit(func(flag *pflag.Flag) {
		if strings.Contains(" "+names+" ", " "+flag.Name+" ") {
			flags++
		}
	})
	given := s.Command.Flags().Changed
	switch {
	case flags == 0:
		return patch, cli.Usage("nothing is changed: give one of --%s", strings.ReplaceAll(names, " ", ", --"))
	case given("delay") && given("run-at"):
		return patch, cli.Usage("--delay cannot be combined with --run-at")
	}
	patch = api.JobPatch{
		Queue: cli.Given(s.Command, "queue", f.queue), Priority: cli.Given(s.Command, "priority", f.priority), RunAt: f.runAt.At, Deadline: f.deadline.At,
		MaxAttempts: cli.Given(s.Command, "max-attempts", f.attempts), Tags: f.tags,
	}
	if given("delay") {
		patch.RunAt = new(api.At(time.Now().Add(f.delay)))
	}
	if len(f.tags) == 1 && f.tags[0] == "" {
		patch.Tags = []string{}
	}
	if len(f.metadata) == 1 && f.metadata[0] == "" {
		patch.Metadata = map[string]string{}
	} else if patch.Metadata, err = pairs(f.metadata); err != nil {
		return patch, err
	}
	if given("data") {
		patch.Payload, err = readJSON("data", f.data, s.In, api.MaxPayload)
	}
	return patch, err
}

// etag is that of --if-match, which may be given without its quotes.
func (f *change) etag() string {
	if f.ifMatch == "" || f.ifMatch == "*" || strings.Contains(f.ifMatch, `"`) {
		return f.ifMatch
	}
	return `"` + f.ifMatch + `"`
}
