// Package commands is the table of what core's program does. core/cmd/core and cmd/forgequeue run it.
package commands

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/shared/server/program"
)

// Command is one of them.
type Command = program.Command[app.Config]

type call = program.Call

// All are the commands. Prepare gives the settings of a core that serves what the program has beyond core's own: brokers,
// an exporter of traces.
func All(prepare func(*app.Config)) []Command {
	return []Command{
		{Name: program.Serve, Help: "Run the engine alone; settings come from the environment", Run: func(ctx context.Context, cfg app.Config, err error, _ call) error {
			if err != nil {
				return err
			}
			prepare(&cfg)
			return app.Run(ctx, cfg)
		}},
		{Name: "migrate", Help: "Migrate the database to this version's schema; can be repeated safely", Run: migrate},
		verify(),
		{Name: "recount", Help: "Reset what caps have counted, where verify finds a drift; all cores must be stopped", Run: recount},
		{Name: "cells", Help: "List the cells of an installation with several databases, and how full they are", Run: cells},
		moveTenant(),
		{Name: "health", Help: "Ask the core that runs here whether it is ready; exits 1 if not", Run: func(ctx context.Context, cfg app.Config, _ error, _ call) error {
			return app.Health(ctx, cfg)
		}},
	}
}

func migrate(ctx context.Context, cfg app.Config, _ error, c call) error {
	applied, err := app.Migrate(ctx, cfg)
	if err == nil {
		_, err = fmt.Fprintf(c.Out, "the schema is up to date; migrations applied now: %d\n", len(applied))
	}
	return err
}

func recount(ctx context.Context, cfg app.Config, _ error, c call) error {
	jobs, err := app.Recount(ctx, cfg)
	if err == nil {
		_, err = fmt.Fprintf(c.Out, "counts were reset; jobs that they had counted: %d\n", jobs)
	}
	return err
}

func cells(ctx context.Context, cfg app.Config, _ error, c call) error {
	listed, err := app.Cells(ctx, cfg)
	if err != nil {
		return err
	}
	return app.WriteCells(c.Out, listed)
}

func verify() Command {
	var window failoverWindow
	return Command{
		Name: "verify", Help: "Recount what caps have counted, and compare cells with the directory; exits 1 at any drift",
		Long: "Recount what caps have counted, and compare cells with the directory; exits 1 at any drift.\n\n" +
			"With --after-failover, for the failover to an asynchronous standby, it lists what the standby had not received as well. " +
			"The old primary must run where no core reaches it; FORGEQUEUE_OLD_DATABASE_URL names it.",
		Flags: func(f *flag.FlagSet) {
			f.Var(&window, "after-failover", "compare with the primary that a standby has replaced: live jobs, and what changed in this time before it ended")
		},
		Run: func(ctx context.Context, cfg app.Config, _ error, c call) error {
			found, err := app.WriteVerified(ctx, cfg, time.Duration(window), c.Out)
			if err == nil && found > 0 {
				return program.FoundError{Text: "the database is not as it must be: see the lines above"}
			}
			return err
		},
	}
}

// failoverWindow is the time before a failover that is compared; the flag may be given without a value.
type failoverWindow time.Duration

// IsBoolFlag says that the flag may have no value.
func (*failoverWindow) IsBoolFlag() bool { return true }

// Alone is the value of the flag without one.
func (*failoverWindow) Alone() string { return app.FailoverWindow.String() }

// Type is what help calls the value.
func (*failoverWindow) Type() string { return "duration" }

func (w *failoverWindow) String() string {
	if *w == 0 {
		return ""
	}
	return time.Duration(*w).String()
}

// Set reads a duration; "true" is what the flag alone says.
func (w *failoverWindow) Set(text string) error {
	if text == "true" {
		*w = failoverWindow(app.FailoverWindow)
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("must be a time above 0, such as 1h")
	}
	*w = failoverWindow(d)
	return nil
}

func moveTenant() Command {
	abort := false
	return Command{
		Name: "tenant move", Args: "TENANT CELL", Help: "Move a tenant to another cell, while cores run; run it again if it was interrupted",
		Flags: func(f *flag.FlagSet) {
			f.BoolVar(&abort, "abort", false, "undo a move that was interrupted before the tenant arrived; CELL may be left out")
		},
		Accepts: func(args []string) error {
			if len(args) == 2 || len(args) == 1 && abort {
				return nil
			}
			return errors.New("tenant move needs TENANT CELL")
		},
		Run: func(ctx context.Context, cfg app.Config, _ error, c call) error {
			request := app.TenantMove{Tenant: c.Args[0], Abort: abort}
			if len(c.Args) == 2 {
				request.Cell = c.Args[1]
			}
			return app.MoveTenant(ctx, cfg, request)
		},
	}
}
