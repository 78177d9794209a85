// Command gateway is the public door of ForgeQueue. It is configured by the
// environment alone: see api-docs/config.md. `gateway serve` runs it, and so does
// `gateway` alone; `gateway health` is the health check of its image.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/interrupt"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/otlp"
)

const usage = `usage: gateway serve     run the public API; gateway alone does the same
       gateway health    ask the gateway that runs here whether it is ready; exits 1 if not
       gateway version   say which build this is
Settings come from the environment; api-docs/config.md lists them.`

var errUsage = errors.New("no such command")

func main() {
	command := "serve"
	if len(os.Args) > 1 {
		command = os.Args[1]
	}
	if len(os.Args) > 2 {
		command = ""
	}
	switch err := run(command); {
	case errors.Is(err, errUsage):
		fmt.Fprintln(os.Stderr, usage)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run drains at the first SIGTERM or SIGINT; the second ends the process at once.
func run(command string) error {
	ctx, stop := interrupt.Context(context.Background())
	defer stop()
	cfg, err := app.FromEnv()
	switch command {
	case "serve":
		if err != nil {
			return err
		}
		cfg.Tracing.Exporter = otlp.Start
		return app.Run(ctx, cfg)
	case "health":
		return app.Health(ctx, cfg)
	case "version":
		fmt.Println("gateway", build.This())
		return nil
	default:
		return errUsage
	}
}
