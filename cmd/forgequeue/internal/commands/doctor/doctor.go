package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/server/build"
	"github.com/forgequeue/forgequeue/shared/server/diagnosis"
)

// levelSkip is the level of a check that was left out, beside the levels of package diagnosis.
const levelSkip = "skip"

// finding is one line of the report.
type finding struct {
	Level  string `json:"level"`
	Check  string `json:"check"`
	Detail string `json:"detail"`
	Advice string `json:"advice"`
}

// report is the result of doctor.
type report struct {
	Findings []finding `json:"findings"`
	// unreached: a server did not answer, or its settings could not be read.
	unreached bool
	// looked: at least one server was configured.
	looked bool
	clocks []clock
}

func (r *report) add(level, check, detail, advice string) {
	r.Findings = append(r.Findings, finding{Level: level, Check: check, Detail: detail, Advice: advice})
}

// Command is doctor.
func Command(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Check the gateway, PostgreSQL and Redis, and say what to change",
		Long: `Check what the environment names, and say what to change. Each variable is optional:

  FORGEQUEUE_URL  the gateway: reachable, its parts, FORGEQUEUE_API_KEY and FORGEQUEUE_OPERATOR_KEY valid
  DATABASE_URL    PostgreSQL: version, migrations, connections, settings that lose data
  REDIS_URL       Redis or Valkey: version, scripts, pub/sub, eviction, latency

It also compares their clocks with this machine's. --url names another gateway, and a profile a gateway with its keys:
--profile, FORGEQUEUE_PROFILE, or the current one if the gateway's variables are not set. What is unset is taken from a "forgequeue up" started by your user that
runs here, and the gateway is otherwise looked for at its usual address. Nothing is changed; one key that expires within a second is
written to Redis. Exit code: 0 nothing has failed (warnings aside), 1 something has, 3 something that is named
could not be reached, or nothing is named.`,
		Example: "  DATABASE_URL=postgres://… REDIS_URL=redis://… forgequeue doctor",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			s := a.Screen(command)
			r := examine(command.Context(), a, s)
			if err := s.Show(r, func(t *cli.Table) { findings(t, r.Findings) }); err != nil {
				return err
			}
			return r.verdict()
		},
	}
	a.ServerFlags(command)
	return command
}

func examine(ctx context.Context, a *cli.App, s *cli.Screen) *report {
	r := &report{}
	r.add(diagnosis.LevelOK, "forgequeue", build.This().String(), "")
	named, by, err := a.Named(s)
	if err == nil && named.APIKey == "" && named.URL != "" && keysElsewhere(a, named.URL) {
		err = errors.New("--url names another server than FORGEQUEUE_URL, to which the keys of the environment belong, so they are not sent there")
	}
	if err != nil {
		r.looked, r.unreached = true, true
		r.add(diagnosis.LevelFail, "gateway", err.Error(), "correct it, or set FORGEQUEUE_URL and FORGEQUEUE_API_KEY")
		return r
	}
	local, ok := a.LocalAt(named.URL)
	if ok && named.URL == "" {
		s.Note("FORGEQUEUE_URL is not set: looking at the `forgequeue up` that runs here (%s)", local.Data)
	}
	examineGateway(ctx, a, named, by, local, r)
	examinePostgres(ctx, a, local, r)
	examineRedis(ctx, a, local, r)
	r.compareClocks()
	return r
}

// keysElsewhere reports whether the environment's keys belong to another server than url.
func keysElsewhere(a *cli.App, url string) bool {
	given, keys := a.Getenv("FORGEQUEUE_URL"), false
	for _, name := range []string{"FORGEQUEUE_API_KEY", "FORGEQUEUE_API_KEY_FILE", "FORGEQUEUE_OPERATOR_KEY", "FORGEQUEUE_OPERATOR_KEY_FILE"} {
		keys = keys || a.Getenv(name) != ""
	}
	return (given != "" || keys) && !cli.SameServer(cmp.Or(given, a.DefaultURL), url)
}

// verdict is the error that sets the exit code.
func (r *report) verdict() error {
	failed := 0
	for _, f := range r.Findings {
		if f.Level == diagnosis.LevelFail {
			failed++
		}
	}
	switch {
	case !r.looked:
		return cli.Environment(errors.New("there was nothing to look at: set FORGEQUEUE_URL, DATABASE_URL or REDIS_URL"))
	case r.unreached:
		return cli.Environment(fmt.Errorf("%d failed, and not everything could be looked at", failed))
	case failed > 0:
		return fmt.Errorf("%d failed", failed)
	}
	return nil
}

func findings(t *cli.Table, all []finding) {
	colours := map[string]cli.Colour{diagnosis.LevelOK: cli.Green, diagnosis.LevelWarn: cli.Yellow, diagnosis.LevelFail: cli.Red, levelSkip: cli.Plain}
	for _, f := range all {
		t.Row(cli.Coloured(f.Level, colours[f.Level]), f.Check, f.Detail)
		if f.Advice != "" {
			t.Below("→ " + f.Advice)
		}
	}
}
