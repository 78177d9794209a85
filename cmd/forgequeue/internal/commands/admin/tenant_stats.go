package admin

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newTenantStats(a *cli.App) *cobra.Command {
	from, to := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "stats",
		Short: "Show the tenants' shares of attempts and of their time (operator)",
		Long: `Show the tenants with the most attempts started: their shares of the attempts and of the running time, and their shares
by weight. -o json has them by minute or hour. The range has at most 24 hours.`,
		Example: "  forgequeue tenant stats --from 6h",
		Args:    cobra.NoArgs,
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, _ []string) error {
			made, err := s.Client.TenantStats(ctx, client.StatsRequest{From: from.At, To: to.At})
			if err != nil {
				return err
			}
			return s.Show(made, func(t *cli.Table) { tenantStats(t, &made) })
		}),
	}
	flags := command.Flags()
	flags.Var(&from, "from", "from this time on, or within this long, such as 2h (default an hour before the end)")
	flags.Var(&to, "to", "before this time, or longer ago than this (default now)")
	return command
}

func tenantStats(t *cli.Table, made *api.TenantStats) {
	started, running, weight := made.Others.Started, made.Others.RunningMS, made.Others.Weight
	for i := range made.Tenants {
		started += made.Tenants[i].Started
		running += made.Tenants[i].RunningMS
		weight += int64(made.Tenants[i].Weight)
	}
	t.Head("TENANT", "NAME", "STARTED", "OF JOBS", "OF TIME", "BY WEIGHT", cli.Minor("COMPLETED"), cli.Least("MEAN RUN"))
	for i := range made.Tenants {
		one := &made.Tenants[i]
		t.Row(one.TenantID, one.Name, one.Started, percent(one.Started, started), percent(one.RunningMS, running), percent(int64(one.Weight), weight), one.Completed, mean(one.RunningMS, one.Started))
	}
	if others := &made.Others; others.Tenants > 0 {
		t.Row("", fmt.Sprintf("%d others", others.Tenants), others.Started, percent(others.Started, started), percent(others.RunningMS, running), percent(others.Weight, weight), others.Completed, mean(others.RunningMS, others.Started))
	}
}

func percent(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", float64(part)*100/float64(whole))
}
