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
	"time"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/shared/interrupt"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/otlp"
)

const usage = `usage: core serve     run the engine
       core verify [--after-failover[=1h]]
                      recount what caps have counted, and compare cells with the directory; exits 1 at any drift.
                      After the failover to an asynchronous standby: list what it had not received as well, live jobs
                      and what changed in the last hour; FORGEQUEUE_OLD_DATABASE_URL names the old primary
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
	window, known := afterFailover(args)
	switch command {
	case "tenant":
		known = ok
	case "verify":
	default:
		known = len(args) == 0
	}
	if !known {
		command = ""
	}
	cfg, err := app.FromEnv()
	switch command {
	case "serve":
		if err == nil {
			cfg.Brokers = []app.Broker{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()}
			cfg.Tracing.Exporter = otlp.Start
			err = app.Run(ctx, cfg)
		}
	case "migrate": // checks only the settings that it needs
		var applied []int64
		if applied, err = app.Migrate(ctx, cfg); err == nil {
			fmt.Printf("the schema is up to date; migrations applied now: %d\n", len(applied))
		}
	case "verify":
		var found int
		if found, err = app.WriteVerified(ctx, cfg, window, os.Stdout); err == nil && found > 0 {
			return 1
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

// afterFailover reads verify's flag with the time before the failover that is compared, 0 without it.
func afterFailover(args []string) (window time.Duration, ok bool) {
	if len(args) == 0 {
		return 0, true
	}
	name, value, given := strings.Cut(args[0], "=")
	if name != "--after-failover" || len(args) > 1 {
		return 0, false
	}
	if !given {
		return app.FailoverWindow, true
	}
	window, err := time.ParseDuration(value)
	return window, err == nil && window > 0
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
