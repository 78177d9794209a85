package work

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newWorker(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker: your own command for each job, or the samples",
	}
	command.AddCommand(newWorkerRun(a), newWorkerSample(a), newWorkerHealth(a))
	return command
}
