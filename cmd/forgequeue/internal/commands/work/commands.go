// Package work holds the commands about workers: run one, and list those that the server knows.
package work

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// Commands are the commands about workers.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{newWorker(a)}
}
