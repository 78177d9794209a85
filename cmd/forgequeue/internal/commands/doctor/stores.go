package doctor

import (
	"cmp"
	"context"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/localup"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

func examinePostgres(ctx context.Context, a *cli.App, local localup.Running, r *report) {
	settings := map[string]string{}
	for _, name := range []string{
		"FORGEQUEUE_CELLS", "FORGEQUEUE_DATABASE_CONNS", "FORGEQUEUE_DATABASE_WAIT",
		"FORGEQUEUE_ALLOW_LOSSY_DATABASE", "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE",
	} {
		if value := a.Getenv(name); value != "" {
			settings[name] = value
		}
	}
	given, err := a.Secret("DATABASE_URL")
	if err != nil {
		r.add(diagnosis.LevelFail, "PostgreSQL", err.Error(), "name a file that can be read")
		return
	}
	settings["DATABASE_URL"] = cmp.Or(given, local.DatabaseURL)
	if settings["DATABASE_URL"] == "" {
		r.add(levelSkip, "PostgreSQL", "DATABASE_URL is not set", "set it to core's to have it looked at")
		return
	}
	r.addStore("PostgreSQL", coreapp.Diagnose(ctx, settings))
}

func examineRedis(ctx context.Context, a *cli.App, local localup.Running, r *report) {
	given, err := a.Secret("REDIS_URL")
	if err != nil {
		r.add(diagnosis.LevelFail, "Redis", err.Error(), "name a file that can be read")
		return
	}
	url := cmp.Or(given, local.RedisURL)
	if url == "" {
		r.add(levelSkip, "Redis", "REDIS_URL is not set", "set it to the gateway's to have it looked at")
		return
	}
	r.addStore("Redis", gatewayapp.Diagnose(ctx, url))
}

// addStore adds what a service found of its store.
func (r *report) addStore(name string, seen diagnosis.Diagnosis) {
	r.looked = true
	for _, f := range seen.Findings {
		r.add(f.Level, f.Check, f.Detail, f.Advice)
	}
	if !seen.Reached {
		r.unreached = true
		return
	}
	r.clocks = append(r.clocks, clock{name, seen.Clock, seen.Doubt})
}
