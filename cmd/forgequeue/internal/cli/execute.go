package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs the program and gives its exit code. What failed is said on
// standard error.
func Execute(ctx context.Context, root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // now, so that it is prepared like the others
	begun := false
	prepare(root, &begun)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !begun {
		// Cobra refused the command line: nothing of ours has run.
		err = usage("%w; see %s --help", err, command.CommandPath())
	}
	if err != nil {
		report(root.ErrOrStderr(), isTerminal(root.ErrOrStderr()) && os.Getenv("NO_COLOR") == "", err)
	}
	return exitCode(err)
}

// prepare makes a command note that it has begun, and one that only groups others
// ask which is meant.
func prepare(command *cobra.Command, begun *bool) {
	for _, child := range command.Commands() {
		prepare(child, begun)
	}
	switch run := command.RunE; {
	case run != nil:
		command.RunE = func(command *cobra.Command, args []string) error {
			*begun = true
			return run(command, args)
		}
		if command.HasSubCommands() {
			command.Args = known
		}
	case command.Run == nil:
		command.Args = cobra.ArbitraryArgs
		command.RunE = which
	}
}

// which answers a group that was called without one of its commands.
func which(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknown(command, args[0])
	}
	var names []string
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return fmt.Errorf("%s needs a command: %s", command.CommandPath(), strings.Join(names, ", "))
}
