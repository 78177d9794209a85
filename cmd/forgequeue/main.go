// Command forgequeue is ForgeQueue in one program: `up` runs everything, `core`
// and `gateway` run one service each, the other commands call a running one.
package main

import (
	"context"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands"
	"github.com/forgequeue/forgequeue/shared/interrupt"
)

func main() {
	prepareConsole()
	ctx, stop := interrupt.Context(context.Background())
	code := cli.Execute(ctx, newRoot(cli.Options{Exporter: exporter()}))
	stop()
	os.Exit(code)
}

func newRoot(options cli.Options) *cobra.Command {
	root := &cobra.Command{
		Use:   "forgequeue",
		Short: "A multi-tenant job queue on PostgreSQL",
		Long: `A multi-tenant job queue on PostgreSQL: run it, and call it.

The commands that call a server find it by FORGEQUEUE_URL (http://127.0.0.1:8080 if unset) and send it
FORGEQUEUE_API_KEY, or FORGEQUEUE_OPERATOR_KEY for what is the operator's (tenant, key, plan); the same names with
_FILE may name a file with the key. Where the key is unset and a "forgequeue up" started by your user runs on this machine, its address and keys are used.

Exit codes: 0 ok, 1 failed, 2 wrong command line, 3 cannot reach or use the server (URL, key, settings), 4 timed out.`,
		Example: `  forgequeue up
  forgequeue submit hash.sha256 --data '{"text":"hello"}' --wait
  forgequeue worker run --queue mine -- ./handle.sh`,
		Version: commands.Version(),
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newUp(), newCore(), newGateway(), newMoved("bench"), newMoved("bridge"))
	root.AddCommand(commands.New(options)...)
	for _, group := range groups {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, command := range root.Commands() {
			if slices.Contains(group.commands, command.Name()) {
				command.GroupID = group.title
			}
		}
	}
	commands.Examples(root)
	return root
}

// groups are the commands in the order of the help; those in none are listed last.
var groups = []struct {
	title    string
	commands []string
}{
	{"Work", []string{"submit", "job", "worker", "workflow", "schedule", "dead-letter", "redrive", "bulk", "user", "relay"}},
	{"Look", []string{"stats", "usage", "limits", "whoami", "audit", "open"}},
	{"Set up", []string{"apply", "queue", "type", "budget", "webhook", "key", "profile"}},
	{"Operate", []string{"up", "core", "gateway", "doctor", "installation", "tenant", "plan"}},
}
