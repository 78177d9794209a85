// Command gateway is the public door of ForgeQueue. It is configured by the
// environment alone: see api-docs/config.md. `gateway serve` runs it, and so does
// `gateway` alone; `gateway health` is the health check of its image.
package main

import (
	"context"
	"os"

	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/gateway/commands"
	"github.com/forgequeue/forgequeue/shared/server/otlp"
	"github.com/forgequeue/forgequeue/shared/server/program"
)

func main() {
	all := commands.All(func(cfg *app.Config) { cfg.Tracing.Exporter = otlp.Start })
	os.Exit(program.Program[app.Config]{Name: "gateway", Commands: all, Settings: app.FromEnv, Default: program.Serve}.Main(context.Background(), os.Args[1:]))
}
