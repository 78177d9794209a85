package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/build"
)

// Version tells which build this is, in a line.
func Version() string { return "forgequeue " + build.This().String() }

func (a *App) version() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build this is",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s := a.screen(command)
			if s.json {
				return s.writeJSON(build.This(), "  ")
			}
			_, err := fmt.Fprintln(s.out, Version())
			return err
		},
	}
}
