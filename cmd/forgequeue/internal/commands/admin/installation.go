package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

func newInstallation(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "installation",
		Short: "Show the state of PostgreSQL, Redis and core, and their activity (operator)",
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
	for i := range found.Processes {
		one := &found.Processes[i]
		t.Pair(one.Kind+" "+one.Address, fmt.Sprintf("%s, version %s, since %s, seen %s", one.State, one.Version, cli.Stamp(&one.StartedAt), cli.Stamp(&one.SeenAt)))
	}
	describePostgres(t, "", &found.Postgres)
	for i := range found.Cells {
		describePostgres(t, "cell "+found.Cells[i].Name+": ", &found.Cells[i].Postgres)
	}
	if r := found.Redis; r != nil {
		limit := "no limit"
		if r.MaxBytes > 0 {
			limit = fmt.Sprintf("of %.1f MB", float64(r.MaxBytes)/1e6)
		}
		t.Pair("redis "+r.Version, fmt.Sprintf("%s, %.1f MB, %s, %s, %d keys evicted", r.Mode, float64(r.UsedBytes)/1e6, limit, r.Policy, r.EvictedKeys))
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

func describePostgres(t *cli.Table, prefix string, p *api.PostgresState) {
	t.Pair(prefix+"postgresql", p.Version)
	t.Pair(prefix+"size", fmt.Sprintf("%.1f MB", float64(p.SizeBytes)/1e6))
	t.Pair(prefix+"connections", fmt.Sprintf("%d of %d, %d of cores", p.Connections, p.MaxConnections, p.CoreConnections))
	oldest := none
	if p.OldestTransactionMS != nil {
		oldest = cli.Milliseconds(*p.OldestTransactionMS)
		if p.OldestTransactionOf != nil && *p.OldestTransactionOf != "" {
			oldest += " by " + *p.OldestTransactionOf
		}
	}
	t.Pair(prefix+"oldest transaction", oldest)
	if held := p.LedgerHeld; held != nil {
		t.Pair(prefix+"ledger of "+held.Day, fmt.Sprintf("blocked by pid %d (%s, role %s) since %s", held.PID, held.Application, held.Role, held.Since.UTC().Format(time.RFC3339)))
	}
	t.Pair(prefix+"live jobs", fmt.Sprintf("%d rows, %d dead rows", p.LiveRows, p.DeadRows))
	for _, one := range p.Replicas {
		behind := "not known"
		if one.BehindBytes != nil {
			behind = fmt.Sprintf("%d bytes", *one.BehindBytes)
		}
		t.Pair(prefix+"standby "+one.Name, one.State+", "+one.Sync+", behind "+behind)
	}
	t.Pair(prefix+"drift", checked(p.Counted))
	t.Pair(prefix+"core verify", checked(p.Verified))
}

func checked(v *api.Verification) string {
	if v == nil {
		return none
	}
	return fmt.Sprintf("%d, found %s", v.Violations, cli.Stamp(&v.At))
}
