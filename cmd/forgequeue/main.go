// Command forgequeue is ForgeQueue in one program: `up` runs everything, `core`
// and `gateway` run one service each.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitEnvironment = 3
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx))
}

func run(ctx context.Context) int {
	root := newRoot()
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "\nforgequeue: %v\n", err)
	var environment *environmentError
	var usage *usageError
	switch {
	case errors.As(err, &environment):
		return exitEnvironment
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "forgequeue",
		Short:         "A multi-tenant job queue on PostgreSQL",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return &usageError{fmt.Errorf("%w; see %s --help", err, command.CommandPath())}
	})
	root.AddCommand(newUp(), newCore(), newGateway())
	return root
}

// environmentError is a failure of the machine or its settings, not of the program.
type environmentError struct{ error }

func (e *environmentError) Unwrap() error { return e.error }

// usageError is a command line that cannot be understood.
type usageError struct{ error }

func (e *usageError) Unwrap() error { return e.error }
