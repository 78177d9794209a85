package main

import (
	"errors"
	"flag"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	corecommands "github.com/forgequeue/forgequeue/core/commands"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	gatewaycommands "github.com/forgequeue/forgequeue/gateway/commands"
	"github.com/forgequeue/forgequeue/shared/server/program"
)

func newCore() *cobra.Command {
	all := corecommands.All(func(cfg *coreapp.Config) { cfg.Brokers, cfg.Tracing.Exporter = brokers(), exporter() })
	command := newService("core", all, coreapp.FromEnv)
	for _, group := range command.Commands() {
		if group.Name() == "tenant" {
			group.Short = "Move a tenant between the cells of an installation"
		}
	}
	return command
}

func newGateway() *cobra.Command {
	all := gatewaycommands.All(func(cfg *gatewayapp.Config) { cfg.Tracing.Exporter = exporter() })
	return newService("gateway", all, gatewayapp.FromEnv)
}

// newService makes commands of a service's table: serve is the service's own.
func newService[Config any](name string, all []program.Command[Config], settings func() (Config, error)) *cobra.Command {
	service := &cobra.Command{Use: name}
	for i := range all {
		parent, c := service, &all[i]
		words := strings.Fields(c.Name)
		for _, group := range words[:len(words)-1] {
			inner := &cobra.Command{Use: group}
			parent.AddCommand(inner)
			parent = inner
		}
		command := service
		if c.Name != program.Serve {
			command = &cobra.Command{}
			parent.AddCommand(command)
			command.Use = strings.TrimSuffix(words[len(words)-1]+" "+c.Args, " ")
		}
		command.Short, command.Long = c.Help, c.Long
		command.Args = func(_ *cobra.Command, args []string) error { return c.Check(args) }
		command.RunE = func(command *cobra.Command, args []string) error {
			cfg, wrong := settings()
			err := c.Run(command.Context(), cfg, wrong, program.Call{Args: args, Out: command.OutOrStdout()})
			if _, found := errors.AsType[program.FoundError](err); err == nil || found || c.Name == "health" || c.Name == program.Serve && wrong == nil {
				return err
			}
			return cli.Environment(err)
		}
		if c.Flags != nil {
			flags := flag.NewFlagSet(c.Name, flag.ContinueOnError)
			c.Flags(flags)
			command.Flags().AddGoFlagSet(flags)
			flags.VisitAll(func(f *flag.Flag) {
				if v, ok := f.Value.(interface{ Alone() string }); ok {
					command.Flags().Lookup(f.Name).NoOptDefVal = v.Alone()
				}
			})
		}
	}
	return service
}
