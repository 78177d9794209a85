package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// One requires exactly one argument, the second word of Use. more follows it in the example of the error.
func One(more ...string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] != "" {
			return nil
		}
		name := strings.Fields(command.Use)[1]
		example := strings.Join(append([]string{command.CommandPath(), name}, more...), " ")
		if len(args) <= 1 {
			return missing(name, example, args)
		}
		return fmt.Errorf("expected one %s, got %d arguments (%s): %s", name, len(args), strings.Join(args, ", "), example)
	}
}

// All requires an argument for each word of Use but the first, none of them empty.
func All(command *cobra.Command, args []string) error {
	words := strings.Fields(command.Use)[1:]
	example := command.CommandPath() + " " + strings.Join(words, " ")
	for i, name := range words {
		if i >= len(args) || args[i] == "" {
			return missing(name, example, args[min(i, len(args)):])
		}
	}
	if len(args) > len(words) {
		return fmt.Errorf("expected %d arguments, got %d (%s): %s", len(words), len(args), strings.Join(args, ", "), example)
	}
	return nil
}

// First requires at least one argument, the second word of Use, that is not empty.
func First(command *cobra.Command, args []string) error {
	if len(args) > 0 && args[0] != "" {
		return nil
	}
	words := strings.Fields(command.Use)
	return missing(words[1], command.CommandPath()+" "+strings.Join(words[1:], " "), args)
}

func missing(name, example string, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s must not be empty: %s", name, example)
	}
	return fmt.Errorf("missing %s: %s", name, example)
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
