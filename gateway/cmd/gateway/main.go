// Command gateway is the public door of ForgeQueue. It is configured by the
// environment alone: see api-docs/config.md.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/forgequeue/forgequeue/gateway/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gateway:", err)
		os.Exit(1)
	}
}

// run drains at the first SIGTERM or SIGINT; the second ends the process at once.
func run() error {
	cfg, err := app.FromEnv()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	context.AfterFunc(ctx, stop) // gives signals back their usual effect
	return app.Run(ctx, cfg)
}
