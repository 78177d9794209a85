package commands

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newOpen(a *cli.App) *cobra.Command {
	var only bool
	command := &cobra.Command{
		Use:   "open [docs]",
		Short: "Open the API's documentation in the browser",
		Long: `Open the documentation of the server's API, where each request can be tried, in the browser. The URL is written to
standard output; with --print it is only written. No key is sent.`,
		Example:   "  forgequeue open",
		ValidArgs: []cobra.Completion{"docs"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "docs" {
				return fmt.Errorf("there is no page %q to open; there is docs", strings.Join(args, " "))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&only, "print", false, "write the URL and open nothing")
	command.RunE = func(command *cobra.Command, _ []string) error {
		s := a.Screen(command)
		named, by, err := a.Named(s)
		if err != nil {
			return err
		}
		local, _ := a.LocalAt(named.URL)
		server := cmp.Or(named.URL, local.Gateway, a.DefaultURL)
		if err := cli.CheckURL(by, server); err != nil {
			return cli.Environment(err)
		}
		page := strings.TrimRight(server, "/") + "/docs"
		if _, err := fmt.Fprintln(s.Out, page); err != nil || only {
			return err
		}
		if err := a.Browse(page); err != nil {
			return fmt.Errorf("no browser could be started (%w); open the URL above by hand", err)
		}
		return nil
	}
	return command
}
