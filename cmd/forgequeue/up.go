package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
)

func newUp() *cobra.Command {
	var options up.Options
	command := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process: PostgreSQL, Redis, core, gateway and a sample worker",
		Long: `Run everything in one process, on Linux or macOS. On Windows: in WSL2, or with Docker Compose.

PostgreSQL: DATABASE_URL, else an installed server as a child of this process.
Redis:      REDIS_URL, else an installed valkey-server or redis-server as a child, else a stand-in in the process.

The data, and the keys, are kept in the data folder: the same command continues with them.
With --json the first line of standard output is {"gateway","api_key",…}, written when all is ready.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Brokers, options.Exporter = brokers(), exporter()
			options.Out, options.Err = command.OutOrStdout(), command.ErrOrStderr()
			ctx, cancel := up.Parent(command.Context())
			defer cancel()
			err := up.Run(ctx, options)
			if _, setting := errors.AsType[*up.SettingError](err); setting {
				return cli.Environment(err)
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Data, "data-dir", "", "data folder (default /var/lib/forgequeue for root, else ~/.local/share/forgequeue)")
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:8080", "address of the public API, HOST:PORT; port 0 takes a free one")
	flags.BoolVar(&options.Demo, "demo", true, "run a sample worker, and submit a few jobs if the data folder is new")
	flags.BoolVar(&options.JSON, "json", false, "print one line of JSON when ready")
	return command
}
