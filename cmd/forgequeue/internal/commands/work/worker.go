package work

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newWorker(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "worker",
		Short: "Work on jobs with a command of yours, or on the samples",
	}
	command.AddCommand(newWorkerRun(a), newWorkerSample(a), newWorkerHealth(a))
	return command
}
