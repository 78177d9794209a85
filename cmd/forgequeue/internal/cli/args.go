package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// One requires exactly one argument, the last word of Use. more follows it in the example of the error.
func One(more ...string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		words := strings.Fields(command.Use)
		name := words[len(words)-1]
		example := strings.Join(append([]string{command.CommandPath(), name}, more...), " ")
		switch {
		case len(args) == 0:
			return fmt.Errorf("name the %s: %s", name, example)
		case len(args) > 1:
			return fmt.Errorf("one %s is wanted, and there are %d arguments (%s): %s", name, len(args), strings.Join(args, ", "), example)
		}
		return nil
	}
}

// known refuses an argument of a group that also runs without a subcommand: it is a mistyped one.
func known(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return unknown(command, args[0])
}

// unknown is the error of a subcommand that does not exist, with those of a similar name.
func unknown(command *cobra.Command, word string) error {
	var names []string
	for _, child := range command.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	command.SuggestionsMinimumDistance = 2 // letters that may be wrong
	text := fmt.Sprintf("%s has no command %q", command.CommandPath(), word)
	if like := command.SuggestionsFor(word); len(like) > 0 {
		return fmt.Errorf("%s; did you mean %s?", text, strings.Join(like, " or "))
	}
	return fmt.Errorf("%s; it has %s", text, strings.Join(names, ", "))
}
