// Package commands is the table of what the gateway's program does. gateway/cmd/gateway and cmd/forgequeue run it.
package commands

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/program"
)

// All are the commands. Prepare gives the settings of a gateway that serves what the program has beyond the gateway's own:
// an exporter of traces.
func All(prepare func(*app.Config)) []program.Command[app.Config] {
	return []program.Command[app.Config]{
		{Name: program.Serve, Help: "Run the public API alone; settings come from the environment", Run: func(ctx context.Context, cfg app.Config, err error, _ program.Call) error {
			if err != nil {
				return err
			}
			prepare(&cfg)
			return app.Run(ctx, cfg)
		}},
		{Name: "health", Help: "Ask the gateway that runs here whether it is ready; exits 1 if not", Run: func(ctx context.Context, cfg app.Config, _ error, _ program.Call) error {
			return app.Health(ctx, cfg)
		}},
	}
}
