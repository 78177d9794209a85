package main

import (
	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// newMoved says where a command is that has become a program of its own.
func newMoved(name string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usage("%[1]s is a program of its own: forgequeue-%[1]s, in the same folder of the archives and the image; "+
				"in the repository: go run ./cmd/forgequeue/forgequeue-%[1]s", name)
		},
	}
}
