package doctor

import (
	"cmp"
	"context"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
)

func examinePostgres(ctx context.Context, a *cli.App, local up.Running, d *diagnosis) {
	settings := map[string]string{}
	for _, name := range []string{
		"FORGEQUEUE_DATABASE_CONNS", "FORGEQUEUE_DATABASE_WAIT",
		"FORGEQUEUE_ALLOW_LOSSY_DATABASE", "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE",
	} {
		if value := a.Getenv(name); value != "" {
			settings[name] = value
		}
	}
	given, err := a.Secret("DATABASE_URL")
	if err != nil {
		d.add(levelFail, "PostgreSQL", err.Error(), "name a file that can be read")
		return
	}
	settings["DATABASE_URL"] = cmp.Or(given, local.DatabaseURL)
	if settings["DATABASE_URL"] == "" {
		d.add(levelSkip, "PostgreSQL", "DATABASE_URL is not set", "set it to core's to have it looked at")
		return
	}
	d.looked = true
	seen := coreapp.Diagnose(ctx, settings)
	for _, f := range seen.Findings {
		d.add(f.Level, f.Check, f.Detail, f.Advice)
	}
	if !seen.Reached {
		d.unreached = true
		return
	}
	d.clocks = append(d.clocks, clock{"PostgreSQL", seen.Clock, seen.Doubt})
}

func examineRedis(ctx context.Context, a *cli.App, local up.Running, d *diagnosis) {
	given, err := a.Secret("REDIS_URL")
	if err != nil {
		d.add(levelFail, "Redis", err.Error(), "name a file that can be read")
		return
	}
	url := cmp.Or(given, local.RedisURL)
	if url == "" {
		d.add(levelSkip, "Redis", "REDIS_URL is not set", "set it to the gateway's to have it looked at")
		return
	}
	d.looked = true
	seen := gatewayapp.Diagnose(ctx, url)
	for _, f := range seen.Findings {
		d.add(f.Level, f.Check, f.Detail, f.Advice)
	}
	if !seen.Reached {
		d.unreached = true
		return
	}
	d.clocks = append(d.clocks, clock{"Redis", seen.Clock, seen.Doubt})
}
