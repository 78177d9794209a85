package commands

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/server/build"
)

// Version is this build in a line.
func Version() string { return "forgequeue " + build.This().String() }

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s := a.Screen(command)
			if s.JSON {
				return s.WriteJSON(build.This(), "  ")
			}
			_, err := fmt.Fprintln(s.Out, Version())
			return err
		},
	}
}
