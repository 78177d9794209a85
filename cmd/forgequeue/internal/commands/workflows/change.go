package workflows

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newCancel(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel all jobs of a workflow that have not ended",
		Long: `Cancel all jobs of a workflow that have not ended. Those that wait end at once. Those that run are asked to stop, so
that the workflow may still be running afterwards. A repeat changes nothing.`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			now, err := s.Client.CancelWorkflow(ctx, args[0])
			if err != nil {
				return err
			}
			if now.State == api.WorkflowRunning {
				s.Note("Jobs of it still run; their workers are asked to stop. `forgequeue workflow get %s --wait` shows when they have.", now.ID)
			}
			return s.Show(now, func(t *cli.Table) { rows(t, []api.Workflow{now}) })
		}),
	}
}

func newRedrive(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "redrive ID",
		Short: "Queue the dead letters of a workflow again",
		Long: `Queue the dead letters of a workflow again, with a new set of attempts. Jobs that wait for them (on_failed "hold") continue once
they have completed; jobs that their failure has cancelled stay cancelled.`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			answer, err := s.Client.RedriveWorkflow(ctx, args[0])
			if err != nil {
				if cli.NoAnswer(err) && !cli.Interrupted(ctx) {
					return errors.Join(err, errors.New("  Whether they were queued again is not known; look before you repeat it: forgequeue workflow get "+args[0]))
				}
				return err
			}
			return reportRedrive(s, answer)
		}),
	}
}

func reportRedrive(s *cli.Session, answer api.DeadLetterResponse) error {
	refused := 0
	for _, one := range answer.Results {
		if one.Problem != nil {
			refused++
			s.Note("%s: %s", one.Problem.Code, one.Problem.Detail)
		}
	}
	if err := s.Show(answer, func(t *cli.Table) {
		t.Row(fmt.Sprintf("%d queued again, %d refused", len(answer.Results)-refused, refused))
	}); err != nil {
		return err
	}
	if refused > 0 {
		return cli.ErrReported
	}
	return nil
}
