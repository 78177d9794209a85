package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	coreapp "github.com/forgequeue/forgequeue/core/app"
)

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
			cfg.Brokers, cfg.Tracing.Exporter = brokers(), exporter()
			return coreapp.Run(command.Context(), cfg)
		},
	}
	command.AddCommand(&cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database to this version's schema; can be repeated safely",
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
	}, newVerify(), newRecount(), newCells(), newCoreTenant(), newHealth("core", func(ctx context.Context) error {
		cfg, _ := coreapp.FromEnv() // Health needs the address alone
		return coreapp.Health(ctx, cfg)
	}))
	return command
}

func newVerify() *cobra.Command {
	var window time.Duration
	command := &cobra.Command{
		Use:   "verify",
		Short: "Recount what caps have counted, and compare cells with the directory; exits 1 at any drift",
		Long: "Recount what caps have counted, and compare cells with the directory; exits 1 at any drift.\n\n" +
			"With --after-failover, for the failover to an asynchronous standby, it lists what the standby had not received as well. " +
			"The old primary must run where no core reaches it; FORGEQUEUE_OLD_DATABASE_URL names it.",
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if command.Flags().Changed("after-failover") && window <= 0 {
				return errors.New("--after-failover: must be a time above 0, such as 1h")
			}
			cfg, _ := coreapp.FromEnv() // WriteVerified judges the settings that it needs
			found, err := coreapp.WriteVerified(command.Context(), cfg, window, command.OutOrStdout())
			if err != nil {
				return cli.Environment(err)
			}
			if found > 0 {
				return errors.New("the database is not as it must be: see the lines above")
			}
			return nil
		},
	}
	command.Flags().DurationVar(&window, "after-failover", 0, "compare with the primary that a standby has replaced: live jobs, and what changed in this time before it ended")
	command.Flags().Lookup("after-failover").NoOptDefVal = coreapp.FailoverWindow.String()
	return command
}

func newRecount() *cobra.Command {
	return &cobra.Command{
		Use:   "recount",
		Short: "Reset what caps have counted, where verify finds a drift; all cores must be stopped",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, _ := coreapp.FromEnv() // Recount judges the settings that it needs
			jobs, err := coreapp.Recount(command.Context(), cfg)
			if err != nil {
				return cli.Environment(err)
			}
			_, err = fmt.Fprintf(command.OutOrStdout(), "counts were reset; jobs that they had counted: %d\n", jobs)
			return err
		},
	}
}

func newCells() *cobra.Command {
	return &cobra.Command{
		Use:   "cells",
		Short: "List the cells of an installation with several databases, and how full they are",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			cfg, _ := coreapp.FromEnv() // Cells judges the settings that it needs
			listed, err := coreapp.Cells(command.Context(), cfg)
			if err != nil {
				return cli.Environment(err)
			}
			return coreapp.WriteCells(command.OutOrStdout(), listed)
		},
	}
}

func newCoreTenant() *cobra.Command {
	command := &cobra.Command{Use: "tenant", Short: "Move a tenant between the cells of an installation"}
	var request coreapp.TenantMove
	move := &cobra.Command{
		Use:   "move TENANT CELL",
		Short: "Move a tenant to another cell, while cores run; run it again if it was interrupted",
		Args: func(command *cobra.Command, args []string) error {
			if request.Abort {
				return cobra.RangeArgs(1, 2)(command, args)
			}
			return cobra.ExactArgs(2)(command, args)
		},
		RunE: func(command *cobra.Command, args []string) error {
			cfg, _ := coreapp.FromEnv() // MoveTenant judges the settings that it needs
			if request.Tenant = args[0]; len(args) == 2 {
				request.Cell = args[1]
			}
			if err := coreapp.MoveTenant(command.Context(), cfg, request); err != nil {
				return cli.Environment(err)
			}
			return nil
		},
	}
	move.Flags().BoolVar(&request.Abort, "abort", false, "undo a move that was interrupted before the tenant arrived; CELL may be left out")
	command.AddCommand(move)
	return command
}
