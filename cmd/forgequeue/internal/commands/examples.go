package commands

import (
	"strings"

	"github.com/spf13/cobra"
)

// In examples these stand for what only a running server can give.
const (
	exampleID = "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10"
	// exampleRow is the id of a row of an outbox.
	exampleRow = "17"
)

// exampleNames stand for NAME, by the noun before it.
var exampleNames = map[string]string{
	"queue": "mail", "schedule": "nightly-report", "webhook": "billing", "budget": "openai", "plan": "standard", "profile": "production",
}

// Examples gives an example to each command below root that has none: the command with its arguments.
func Examples(root *cobra.Command) {
	for _, command := range root.Commands() {
		if command.Runnable() && command.Example == "" && !command.Hidden {
			command.Example = "  " + example(command)
		}
		Examples(command)
	}
}

func example(command *cobra.Command) string {
	words := []string{command.CommandPath()}
	for _, word := range strings.Fields(command.Use)[1:] {
		switch {
		case strings.HasPrefix(word, "["): // may be left out
		case word == "NAME":
			words = append(words, exampleNames[command.Parent().Name()])
		case word == "TYPE":
			words = append(words, "report.send")
		case word == "CELL":
			words = append(words, "second")
		case word == "ID...":
			words = append(words, exampleRow)
		default:
			words = append(words, exampleID)
		}
	}
	return strings.Join(words, " ")
}
