package workflows

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newSubmit(a *cli.App) *cobra.Command {
	var key string
	var w waiting
	command := &cobra.Command{
		Use:   "submit FILE",
		Short: "Submit a workflow; with --wait, wait until it ends",
		Long: `Submit a workflow. FILE has the JSON of POST /v1/workflows; - is standard input. All of its jobs are stored, or none.

With --wait it is followed to its end, and drawn: exit code 0 when it completed, 1 when it failed or was cancelled, 4
when --wait-timeout passed first (the workflow keeps running).`,
		Example: `  forgequeue workflow submit report.json --idempotency-key report-2026-11-20 --wait
  echo '{"jobs":[{"ref":"a","type":"extract"},{"ref":"b","type":"send","after":["a"]}]}' | forgequeue workflow submit -`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			options, replayed, err := keyed(s, key)
			if err != nil {
				return err
			}
			var request api.WorkflowRequest
			if err := readFile(args[0], s.In, &request); err != nil {
				return err
			}
			made, err := s.Client.SubmitWorkflow(ctx, client.WorkflowOf(request), options...)
			if err != nil {
				return err
			}
			noteReplay(s, *replayed, made.ID)
			if w.wanted() {
				return w.follow(ctx, s, made.ID)
			}
			return s.Show(made, func(t *cli.Table) { rows(t, []api.Workflow{made}) })
		}),
	}
	command.Flags().StringVar(&key, "idempotency-key", "", "Idempotency-Key: the same key and workflow again get the first answer again")
	w.flags(command)
	return command
}

func newAdd(a *cli.App) *cobra.Command {
	var key string
	command := &cobra.Command{
		Use:   "add ID FILE",
		Short: "Add jobs to a running workflow",
		Long: `Add jobs to a running workflow: all of them, or none. FILE has the JSON of POST /v1/workflows/{id}/jobs; - is standard
input. The jobs may come after those that are there, by their refs. A workflow that has ended is refused.`,
		Example: `  echo '{"jobs":[{"ref":"check","type":"check","after":["extract"]}]}' | forgequeue workflow add 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 -`,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usage("name the workflow and the file: %s ID FILE", command.CommandPath())
			}
			return nil
		},
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			options, replayed, err := keyed(s, key)
			if err != nil {
				return err
			}
			var request api.WorkflowJobsRequest
			if err := readFile(args[1], s.In, &request); err != nil {
				return err
			}
			now, err := s.Client.AddToWorkflow(ctx, args[0], client.WorkflowOf(api.WorkflowRequest{Jobs: request.Jobs}), options...)
			if err != nil {
				return err
			}
			noteReplay(s, *replayed, now.ID)
			return s.Show(now, func(t *cli.Table) { rows(t, []api.Workflow{now}) })
		}),
	}
	command.Flags().StringVar(&key, "idempotency-key", "", "Idempotency-Key: the same key and jobs again get the first answer again")
	return command
}

// keyed are the options for --idempotency-key, and whether the answer is a remembered one.
func keyed(s *cli.Session, key string) ([]client.CallOption, *bool, error) {
	replayed := new(bool)
	if !s.Command.Flags().Changed("idempotency-key") {
		return nil, replayed, nil
	}
	if key == "" {
		return nil, replayed, cli.Usage("--idempotency-key is empty")
	}
	return []client.CallOption{client.WithIdempotencyKey(key), client.WithReplayed(replayed)}, replayed, nil
}

func noteReplay(s *cli.Session, replayed bool, id string) {
	if replayed {
		s.Note("This key was used before; this is the first answer again: %s.", id)
	}
}
