package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
)

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
			cfg.Tracing.Exporter = exporter()
			return gatewayapp.Run(command.Context(), cfg)
		},
	}
	command.AddCommand(newHealth("gateway", func(ctx context.Context) error {
		cfg, _ := gatewayapp.FromEnv() // Health needs the address alone
		return gatewayapp.Health(ctx, cfg)
	}))
	return command
}
