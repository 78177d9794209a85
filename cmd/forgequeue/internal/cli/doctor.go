package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/up"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/build"
)

// Levels of a finding, beside those of the services.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail"
	levelSkip = "skip"
)

// finding is one line of the doctor's report.
type finding struct {
	Level  string `json:"level"`
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Advice string `json:"advice"`
}

// diagnosis is the doctor's report.
type diagnosis struct {
	Findings []finding `json:"findings"`
	// unreached: something that was named gave no answer, or could not be read.
	unreached bool
	// looked: there was something to look at.
	looked bool
	clocks []clock
}

func (d *diagnosis) add(level, check, detail, advice string) {
	d.Findings = append(d.Findings, finding{Level: level, Check: check, Detail: detail, Advice: advice})
}

func (a *App) doctor() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Look at the gateway, PostgreSQL and Redis, and say what to change",
		Long: `Look at what is named in the environment, each optional, and say what to change:

  FORGEQUEUE_URL  the gateway: reachable, its parts, FORGEQUEUE_API_KEY and FORGEQUEUE_OPERATOR_KEY valid
  DATABASE_URL    PostgreSQL: version, migrations, connections, settings that lose data
  REDIS_URL       Redis or Valkey: version, scripts, pub/sub, eviction, latency

and compare the clocks of all with this machine's. What is unset is taken from a "forgequeue up" of yours that
runs here, and the gateway is otherwise looked for at its usual address. Nothing is changed; one key that expires within a second is
written to Redis. Exit code: 0 nothing has failed (warnings aside), 1 something has, 3 something that is named
could not be reached, or nothing is named.`,
		Example: "  DATABASE_URL=postgres://… REDIS_URL=redis://… forgequeue doctor",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s := a.screen(command)
			d := a.examine(command.Context(), s)
			if err := s.show(d, func(t *table) { findings(t, d.Findings) }); err != nil {
				return err
			}
			return d.verdict()
		},
	}
}

func (a *App) examine(ctx context.Context, s *screen) *diagnosis {
	d := &diagnosis{}
	d.add(levelOK, "forgequeue", build.This().String(), "")
	local := a.examined(s)
	a.examineGateway(ctx, local, d)
	a.examinePostgres(ctx, local, d)
	a.examineRedis(ctx, local, d)
	d.compareClocks()
	return d
}

// examined is the `up` of this machine, if it is the server that is meant; else
// the zero value.
func (a *App) examined(s *screen) up.Running {
	local, running := a.local()
	server := a.getenv("FORGEQUEUE_URL")
	switch {
	case !running || server != "" && !sameServer(server, local.Gateway):
		return up.Running{}
	case server == "":
		s.note("FORGEQUEUE_URL is not set: looking at the `forgequeue up` that runs here (%s)", local.Data)
	}
	return local
}

func (a *App) examinePostgres(ctx context.Context, local up.Running, d *diagnosis) {
	settings := map[string]string{}
	for _, name := range []string{
		"FORGEQUEUE_DATABASE_CONNS", "FORGEQUEUE_DATABASE_WAIT",
		"FORGEQUEUE_ALLOW_LOSSY_DATABASE", "FORGEQUEUE_ALLOW_PLAINTEXT_DATABASE",
	} {
		if value := a.getenv(name); value != "" {
			settings[name] = value
		}
	}
	given, err := a.secret("DATABASE_URL")
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

func (a *App) examineRedis(ctx context.Context, local up.Running, d *diagnosis) {
	given, err := a.secret("REDIS_URL")
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

// verdict is the exit code's reason.
func (d *diagnosis) verdict() error {
	failed := 0
	for _, f := range d.Findings {
		if f.Level == levelFail {
			failed++
		}
	}
	switch {
	case !d.looked:
		return Environment(errors.New("there was nothing to look at: set FORGEQUEUE_URL, DATABASE_URL or REDIS_URL"))
	case d.unreached:
		return Environment(fmt.Errorf("%d failed, and not everything could be looked at", failed))
	case failed > 0:
		return fmt.Errorf("%d failed", failed)
	}
	return nil
}

func findings(t *table, all []finding) {
	colours := map[string]colour{levelOK: green, levelWarn: yellow, levelFail: red, levelSkip: plain}
	for _, f := range all {
		t.row(coloured{f.Level, colours[f.Level]}, f.Check, f.Detail)
		if f.Advice != "" {
			fmt.Fprintf(t.w, "%s\t\t→ %s\n", paint(t.colours, plain, ""), visible(f.Advice))
		}
	}
}
