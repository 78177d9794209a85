package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	"github.com/forgequeue/forgequeue/cmd/supervisor"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
)

func newUp() *cobra.Command {
	var options up.Options
	command := &cobra.Command{
		Use:   "up",
		Short: "Run everything in one process: PostgreSQL, Redis, core, gateway and a sample worker",
		Long: `Run everything in one process.

PostgreSQL: DATABASE_URL, else an installed server as a child of this process.
Redis:      REDIS_URL, else an installed valkey-server or redis-server as a child, else a stand-in in the process.

The data, and the keys, are kept in the data folder: the same command goes on where it stopped.
With --json the first line of standard output is {"gateway","api_key",…}, written when all is ready.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			options.Out, options.Err = command.OutOrStdout(), command.ErrOrStderr()
			ctx, cancel := up.Parent(command.Context())
			defer cancel()
			return asEnvironment(up.Run(ctx, options))
		},
	}
	flags := command.Flags()
	flags.StringVar(&options.Data, "data", "", "data folder (default /var/lib/forgequeue for root, else ~/.local/share/forgequeue)")
	flags.StringVar(&options.Listen, "listen", "127.0.0.1:8080", "address of the public API, HOST:PORT; port 0 takes a free one")
	flags.BoolVar(&options.Demo, "demo", true, "run a sample worker, and submit a few jobs if the data folder is new")
	flags.BoolVar(&options.JSON, "json", false, "print one line of JSON when ready")
	return command
}

// asEnvironment marks what the machine, and not the program, got wrong.
func asEnvironment(err error) error {
	_, held := errors.AsType[*up.HeldError](err)
	_, missing := errors.AsType[*up.MissingPostgresError](err)
	_, server := errors.AsType[*supervisor.HeldError](err)
	_, setting := errors.AsType[*up.SettingError](err)
	if held || missing || server || setting {
		return cli.Environment(err)
	}
	return err
}

func newCore() *cobra.Command {
	command := &cobra.Command{
		Use:   "core",
		Short: "Run the engine alone; settings come from the environment",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := coreapp.FromEnv()
			if err != nil {
				return cli.Environment(err)
			}
			return coreapp.Run(command.Context(), cfg)
		},
	}
	command.AddCommand(&cobra.Command{
		Use:   "migrate",
		Short: "Bring the database to this version's schema; harmless to repeat",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, _ := coreapp.FromEnv() // Migrate judges the settings that it needs
			applied, err := coreapp.Migrate(command.Context(), cfg)
			if err != nil {
				return cli.Environment(err)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "the schema is up to date; migrations applied now: %d\n", len(applied))
			return err
		},
	}, newVerify(), newRecount(), newHealth("core", func(ctx context.Context) error {
		cfg, _ := coreapp.FromEnv() // Health needs the address alone
		return coreapp.Health(ctx, cfg)
	}))
	return command
}

func newHealth(name string, ask func(context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use:   "health",
		Short: "Ask the " + name + " that runs here whether it is ready; exits 1 if not",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return ask(command.Context()) },
	}
}

func newVerify() *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Recount what caps have counted; exits 1 at any drift",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, _ := coreapp.FromEnv() // Verify judges the settings that it needs
			drifts, err := coreapp.Verify(command.Context(), cfg)
			if err != nil {
				return cli.Environment(err)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "drift: %d\n", len(drifts))
			for _, line := range drifts {
				_, err = fmt.Fprintln(command.OutOrStdout(), line)
			}
			if len(drifts) > 0 {
				return errors.New("counts are not as they must be")
			}
			return err
		},
	}
}

func newRecount() *cobra.Command {
	return &cobra.Command{
		Use:   "recount",
		Short: "Begin anew what caps have counted, where verify finds a drift; all cores have to be stopped",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, _ := coreapp.FromEnv() // Recount judges the settings that it needs
			jobs, err := coreapp.Recount(command.Context(), cfg)
			if err != nil {
				return cli.Environment(err)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "counts begin anew; jobs that were in one: %d\n", jobs)
			return err
		},
	}
}

func newGateway() *cobra.Command {
	command := &cobra.Command{
		Use:   "gateway",
		Short: "Run the public API alone; settings come from the environment",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, err := gatewayapp.FromEnv()
			if err != nil {
				return cli.Environment(err)
			}
			return gatewayapp.Run(command.Context(), cfg)
		},
	}
	command.AddCommand(newHealth("gateway", func(ctx context.Context) error {
		cfg, _ := gatewayapp.FromEnv() // Health needs the address alone
		return gatewayapp.Health(ctx, cfg)
	}))
	return command
}
