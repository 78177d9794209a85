package admin

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newInstallation(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "installation",
		Short: "Show how PostgreSQL, Redis and core are, and what goes on in them (operator)",
		Args:  cobra.NoArgs,
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, _ []string) error {
			found, err := s.Client.Installation(ctx)
			if err != nil {
				return err
			}
			return s.Show(found, func(t *cli.Table) { describeInstallation(t, &found) })
		}),
	}
}

func describeInstallation(t *cli.Table, found *api.Installation) {
	names := make([]string, 0, len(found.Checks))
	for name := range found.Checks {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Pair(name, found.Checks[name])
	}
	p := &found.Postgres
	t.Pair("postgresql", p.Version)
	t.Pair("size", fmt.Sprintf("%.1f MB", float64(p.SizeBytes)/1e6))
	t.Pair("connections", fmt.Sprintf("%d of %d, %d of cores", p.Connections, p.MaxConnections, p.CoreConnections))
	oldest := none
	if p.OldestTransactionMS != nil {
		oldest = cli.Milliseconds(*p.OldestTransactionMS)
		if p.OldestTransactionOf != nil && *p.OldestTransactionOf != "" {
			oldest += " by " + *p.OldestTransactionOf
		}
	}
	t.Pair("oldest transaction", oldest)
	t.Pair("live jobs", fmt.Sprintf("%d rows, %d dead rows", p.LiveRows, p.DeadRows))
	for _, one := range p.Replicas {
		behind := "not known"
		if one.BehindBytes != nil {
			behind = fmt.Sprintf("%d bytes", *one.BehindBytes)
		}
		t.Pair("standby "+one.Name, one.State+", "+one.Sync+", behind "+behind)
	}
	for _, one := range found.Statements {
		t.Pair("runs for "+cli.Milliseconds(one.RunningMS), one.Text)
	}
	for i := range found.Redrives {
		one := &found.Redrives[i]
		sample := ""
		if one.Canary != nil {
			sample = ", canary " + one.Canary.State
		}
		t.Pair(one.Action, fmt.Sprintf("%s of %s: %d of %d%s", one.ID, one.Tenant, one.Done, one.Matched, sample))
	}
}
