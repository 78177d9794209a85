package work

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newWorker(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "worker",
		Aliases: []string{"workers"},
		Short:   "List workers; run one: your own command for each job, or the samples",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List the registered workers, and which of them are alive", (*client.Client).Workers, workers)
	command.Flags().AddFlagSet(list.Flags()) // `worker` alone is the list
	command.RunE = list.RunE
	command.AddCommand(list, newWorkerRun(a), newWorkerSample(a), newWorkerHealth(a))
	return command
}
