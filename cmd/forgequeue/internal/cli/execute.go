package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Execute runs the program and returns its exit code. It writes an error to standard error.
func Execute(ctx context.Context, root *cobra.Command) int {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.SetFlagErrorFunc(flagError)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd() // now, so that it is prepared like the others
	begun := false
	prepare(root, &begun)
	out := &output{to: root.OutOrStdout()}
	root.SetOut(out)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = out.failed()
	}
	if err != nil && !begun && out.failed() == nil {
		// Cobra refused the command line: no command has run.
		err = Usage("%w; see %s --help", err, command.CommandPath())
	}
	if err != nil {
		colours, _ := takes(root.ErrOrStderr(), os.Getenv)
		report(root.ErrOrStderr(), colours, command, err)
	}
	return exitCode(err)
}

// prepare makes every command set begun before it runs, and check its durations, and gives a RunE to those that only group
// others.
func prepare(command *cobra.Command, begun *bool) {
	for _, child := range command.Commands() {
		prepare(child, begun)
	}
	checkDurations(command.Flags())
	checkDurations(command.PersistentFlags())
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

// which is the RunE of a group that was called without a subcommand.
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
