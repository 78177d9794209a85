package commands

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

func newOpen(a *cli.App) *cobra.Command {
	var only bool
	command := &cobra.Command{
		Use:   "open [docs|console]",
		Short: "Open the API's documentation or the console in the browser",
		Long: `Open the documentation of the server's API, where each request can be tried, or the console in the browser. The URL is
written to standard output; with --print it is only written. For the documentation no key is sent. The console is opened by
a link that signs in as the key, once, within 30 minutes; the key itself is not in it.`,
		Example:   "  forgequeue open\n  forgequeue open console",
		ValidArgs: []cobra.Completion{"docs", "console"},
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && args[0] != "docs" && args[0] != "console" {
				return fmt.Errorf("there is no page %q to open; there are docs and console", strings.Join(args, " "))
			}
			return nil
		},
	}
	command.Flags().BoolVar(&only, "print", false, "write the URL and open nothing")
	show := func(s *cli.Screen, page string) error {
		if _, err := fmt.Fprintln(s.Out, page); err != nil || only {
			return err
		}
		if err := a.Browse(page); err != nil {
			return fmt.Errorf("no browser could be started (%w): open the URL above yourself", err)
		}
		return nil
	}
	console := a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
		server, err := a.TenantServer(s.Screen)
		if err != nil {
			return err
		}
		link, err := s.Client.ConsoleLink(ctx)
		if err != nil {
			return err
		}
		return show(s.Screen, strings.TrimRight(server, "/")+link.Path)
	})
	command.RunE = func(command *cobra.Command, args []string) error {
		if len(args) == 1 && args[0] == "console" {
			return console(command, args)
		}
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
		return show(s, strings.TrimRight(server, "/")+"/docs")
	}
	return command
}
