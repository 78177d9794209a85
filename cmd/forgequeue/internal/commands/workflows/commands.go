// Package workflows holds the commands about workflows, which are jobs that come after each other: submit one, draw
// it, add jobs, cancel and redrive it.
package workflows

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// Command is the command workflow.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "workflow",
		Aliases: []string{"workflows"},
		Short:   "Jobs that depend on each other: list, submit, draw, add to, cancel, redrive",
		Args:    cobra.NoArgs,
	}
	list := newList(a)
	command.Flags().AddFlagSet(list.Flags()) // `workflow` alone is the list
	command.RunE = list.RunE
	command.AddCommand(newSubmit(a), newGet(a), list, newAdd(a), newCancel(a), newRedrive(a))
	return command
}
