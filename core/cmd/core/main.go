// Command core is the engine: it stores jobs, leases them, retries and dead-letters them. `core
// serve` runs it, `core migrate` prepares its database, `core verify` and `core recount` check its
// counts, `core cells` lists several databases, `core tenant move` moves a tenant between them, `core
// health` is the health check of its image.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/shared/build"
	"github.com/forgequeue/forgequeue/shared/interrupt"
)

const usage = `usage: core serve     run the engine
       core verify    recount what caps have counted; exits 1 at any drift
       core recount   reset the counts of caps if verify finds a drift; all cores must be stopped
       core cells     list the cells of an installation with several databases, and how full they are
       core tenant move TENANT CELL [--abort]
                      move a tenant to another cell, while cores run; run it again if it was interrupted;
                      --abort undoes a move that has not arrived, and CELL may be left out
       core health    ask the core that runs here whether it is ready; exits 1 if not
       core version   say which build this is
       core migrate   bring the database to this version's schema; harmless to repeat
Settings come from the environment; api-docs/config.md lists them.`

func main() {
	ctx, stop := interrupt.Context(context.Background())
	command := ""
	if len(os.Args) >= 2 {
		command = os.Args[1]
	}
	code := run(ctx, command, os.Args[min(2, len(os.Args)):])
	stop()
	os.Exit(code)
}

func run(ctx context.Context, command string, args []string) int {
	move, ok := moveOf(args)
	if command == "tenant" && !ok || command != "tenant" && len(args) > 0 {
		command = ""
	}
	cfg, err := app.FromEnv()
	switch command {
	case "serve":
		if err == nil {
			err = app.Run(ctx, cfg)
		}
	case "migrate": // checks only the settings that it needs
		var applied []int64
		if applied, err = app.Migrate(ctx, cfg); err == nil {
			fmt.Printf("the schema is up to date; migrations applied now: %d\n", len(applied))
		}
	case "verify":
		var drifts []string
		if drifts, err = app.Verify(ctx, cfg); err == nil {
			fmt.Printf("drift: %d\n", len(drifts))
			for _, line := range drifts {
				fmt.Println(line)
			}
			if len(drifts) > 0 {
				return 1
			}
		}
	case "recount":
		var jobs int64
		if jobs, err = app.Recount(ctx, cfg); err == nil {
			fmt.Printf("counts were reset; jobs that they had counted: %d\n", jobs)
		}
	case "cells":
		var listed []app.CellState
		if listed, err = app.Cells(ctx, cfg); err == nil {
			err = app.WriteCells(os.Stdout, listed)
		}
	case "tenant":
		err = app.MoveTenant(ctx, cfg, move)
	case "health":
		err = app.Health(ctx, cfg)
	case "version":
		fmt.Println("core", build.This())
		return 0
	default:
		fmt.Fprintln(os.Stderr, usage)
		return 2
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "core:", err)
		return 1
	}
	return 0
}

// moveOf reads `move TENANT CELL` with --abort anywhere after it; then the cell may be absent.
func moveOf(args []string) (request app.TenantMove, ok bool) {
	if len(args) == 0 || args[0] != "move" {
		return request, false
	}
	var names []string
	for _, arg := range args[1:] {
		switch {
		case arg == "--abort":
			request.Abort = true
		case strings.HasPrefix(arg, "-"):
			return request, false
		default:
			names = append(names, arg)
		}
	}
	if len(names) == 0 || len(names) > 2 || len(names) == 1 && !request.Abort {
		return request, false
	}
	if request.Tenant = names[0]; len(names) == 2 {
		request.Cell = names[1]
	}
	return request, true
}
