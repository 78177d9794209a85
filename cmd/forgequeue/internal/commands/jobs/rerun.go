package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newJobDelete(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "delete ID",
		Short: "Delete an ended job and its attempts",
		Args:  cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			if err := s.Client.DeleteJob(ctx, args[0]); err != nil {
				return err
			}
			s.Note("deleted %s", args[0])
			return nil
		}),
	}
}

func newJobRerun(a *cli.App) *cobra.Command {
	var f submission
	var jobType string
	command := &cobra.Command{
		Use:   "rerun ID",
		Short: "Submit a new job like an ended one",
		Long: `Submit a new job like one that has completed, was cancelled or is a dead letter. The old one stays as it is. Flags
replace the old job's settings. Its dedupe key, its parents, and a deadline that has passed are not copied.`,
		Example: `  forgequeue job rerun 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --wait
  forgequeue job rerun 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --data @order.json --priority 9`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			differs, err := f.request(s, jobType)
			if err != nil {
				return err
			}
			return f.send(ctx, s, func(options ...client.CallOption) (api.SubmitResponse, error) {
				return s.Client.Rerun(ctx, args[0], api.RerunRequest{SubmitRequest: differs}, options...)
			})
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&f.data, "data", "d", "", "payload: JSON, @FILE or - for standard input")
	flags.StringVar(&jobType, "type", "", "type")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue")
	flags.IntVar(&f.priority, "priority", 0, "0 to 9, higher first")
	flags.DurationVar(&f.delay, "delay", 0, "start no sooner than after this long, such as 90s")
	flags.Var(&f.deadline, "deadline", "becomes a dead letter if it has not ended by this time, or within this long")
	flags.DurationVar(&f.expires, "expires-after", 0, "the same, counted from when the server stores the job, such as 1h")
	flags.IntVar(&f.attempts, "max-attempts", 0, "executions that may be spent on it")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution")
	flags.StringArrayVar(&f.tags, "tag", nil, "what a worker must have, instead of all old tags; repeatable")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE, instead of all old ones; repeatable")
	f.deduping(command)
	flags.StringVar(&f.idempotency, "idempotency-key", "", "Idempotency-Key: the same key again gets the first answer again")
	f.waiting(flags)
	return command
}
