// Command core is the engine: it stores jobs, leases them, retries and dead-letters them. Package commands lists what
// it does; it is configured by the environment alone: see api-docs/config.md.
package main

import (
	"context"
	"os"

	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/commands"
	"github.com/forgequeue/forgequeue/shared/server/otlp"
	"github.com/forgequeue/forgequeue/shared/server/program"
)

func main() {
	all := commands.All(func(cfg *app.Config) {
		cfg.Brokers = []app.Broker{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()}
		cfg.Tracing.Exporter = otlp.Start
	})
	os.Exit(program.Program[app.Config]{Name: "core", Commands: all, Settings: app.FromEnv}.Main(context.Background(), os.Args[1:]))
}
