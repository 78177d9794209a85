package main

import (
	"context"

	"github.com/spf13/cobra"
)

func newHealth(name string, ask func(context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the " + name + " that runs here whether it is ready; exits 1 if not",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return ask(command.Context()) },
	}
}
