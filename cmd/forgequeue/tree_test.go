package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// kinds are what the types of flags' values have in common: text may be one or many, a number may be none.
var kinds = map[string]string{
	"string": "text", "stringSlice": "text", "stringArray": "text", "stringToString": "text", "int": "number", "float64": "number",
}

// A flag has one short form and one kind of value in all commands, and none shadows one that all commands have.
func TestAFlagMeansOneThing(t *testing.T) {
	t.Parallel()
	type form struct{ short, kind string }
	forms, users := map[string]form{}, map[string]string{}
	root := newRoot(cli.Options{})
	each(root, nil, func(command *cobra.Command, words []string) {
		name := strings.Join(words, " ")
		command.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" {
				return
			}
			if command.InheritedFlags().Lookup(f.Name) != nil || root.Flags().Lookup(f.Name) != nil || f.Name == "version" {
				t.Errorf("%s: --%s shadows a flag of all commands", name, f.Name)
			}
			kind := f.Value.Type()
			if common := kinds[kind]; common != "" {
				kind = common
			}
			if f.Name == "rate" { // a number of a second everywhere; queue set takes none too
				kind = "number"
			}
			this := form{f.Shorthand, kind}
			if first, known := forms[f.Name]; known && first != this {
				t.Errorf("--%s is %v in %s, and %v in %s", f.Name, this, name, first, users[f.Name])
			}
			forms[f.Name], users[f.Name] = this, name
		})
	})
	if len(forms) < 50 {
		t.Errorf("only %d flags are seen", len(forms))
	}
}

// Nouns are in the singular, with the plural as alias, and each command has a group and an example.
func TestCommandsAreOfOneForm(t *testing.T) {
	t.Parallel()
	root := newRoot(cli.Options{})
	each(root, nil, func(command *cobra.Command, words []string) {
		name := strings.Join(words, " ")
		if name == "completion" || len(words) > 1 && words[0] == "completion" {
			return
		}
		if command.Runnable() && !strings.Contains(command.Example, "forgequeue "+name) {
			t.Errorf("%s has no example: %q", name, command.Example)
		}
		if len(words) > 1 || slices.Contains([]string{"version"}, name) {
			return
		}
		if command.GroupID == "" {
			t.Errorf("%s is in no group of the help", name)
		}
		if plural := name + "s"; command.HasSubCommands() && command.GroupID != "Operate" && name != "relay" && !slices.Contains(command.Aliases, plural) {
			t.Errorf("%s has no alias %s", name, plural)
		}
	})
}
