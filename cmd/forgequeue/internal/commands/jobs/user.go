package jobs

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newUser(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "user",
		Aliases: []string{"users"},
		Short:   "Export all that is kept of a user's jobs",
		Example: "  forgequeue user export ada > ada.jsonl",
	}
	command.AddCommand(newUserExport(a))
	return command
}

func newUserExport(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "export USER",
		Short: "Write a user's jobs, attempts, output, signals and schedules as JSON lines",
		Long: `Write all that is kept of a user's jobs as JSON lines: each job, followed by its attempts, output and signals, then the user's
schedules. An export that breaks off is an error: run it again.

To delete the data, see "forgequeue bulk cancel --user" and "forgequeue bulk delete --user".`,
		Example: "  forgequeue user export ada > ada.jsonl",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			to := json.NewEncoder(s.Out)
			to.SetEscapeHTML(false)
			for line, err := range s.Client.ExportUser(ctx, args[0]) {
				if err == nil {
					err = to.Encode(line)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
}
