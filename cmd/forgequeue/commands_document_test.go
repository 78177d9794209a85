package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// The page of commands is written from the commands.
func TestCommandsDocument(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("# Commands\n\nEvery command of `forgequeue`. `forgequeue COMMAND --help` explains its flags and has examples; [the guide](cli.md) shows how to work with them.\n\n" +
		"Commands that call a server have `--url` and `--profile`; commands that print a result have `-o table|json|jsonl|name`; lists have `--limit`, `--page-token` and `--watch`.\n\n" +
		"<!-- Written from the commands: go test ./cmd/forgequeue -run TestCommandsDocument -update. -->\n")
	root := newRoot(cli.Options{})
	for _, command := range root.Commands() {
		if command.Hidden || command.Name() == "help" || command.Name() == "completion" {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n", command.Name())
		list(&b, command, "")
	}
	path := filepath.Join("..", "..", "api-docs", "commands.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil || string(written) != b.String() {
		t.Errorf("api-docs/commands.md is not what the commands say (%v); run the test with -update", err)
	}
}

// list has a line for each command from this one on: its usage, and what it does.
func list(b *strings.Builder, command *cobra.Command, words string) {
	usage := strings.TrimSpace(words + " " + command.Use)
	if command.Runnable() || command.HasAvailableSubCommands() && words == "" {
		fmt.Fprintf(b, "- `%s`: %s.\n", usage, command.Short)
	}
	for _, child := range command.Commands() {
		if !child.Hidden && (child.Name() != "list" || !command.Runnable()) { // the command itself lists too
			list(b, child, strings.TrimSpace(words+" "+command.Name()))
		}
	}
}
