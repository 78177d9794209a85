package admin

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newStats(a *cli.App) *cobra.Command {
	var request client.StatsRequest
	from, to := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "stats",
		Short: "Show what jobs did, by minute, hour or day",
		Long: `Show how many jobs were submitted, started and ended in each minute, hour or day, and for how long they waited and ran
on average. Steps in which nothing happened are left out of the table; -o json has them. For exact numbers use forgequeue usage.`,
		Example: "  forgequeue stats --queue mail --from 24h --step hour",
		Args:    cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			request.From, request.To = from.At, to.At
			made, err := s.Client.Stats(ctx, request)
			if err != nil {
				return err
			}
			return s.Show(made, func(t *cli.Table) { stats(t, made.Items) })
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&request.Queue, "queue", "q", "", "only this queue (default all queues together)")
	flags.Var(&from, "from", "from this time on, or within this long, such as 2h (default an hour before the end)")
	flags.Var(&to, "to", "before this time, or longer ago than this (default now)")
	flags.StringVar(&request.Step, "step", "", "minute, hour or day (default minute for at most 24 hours, else hour)")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("step", cobra.FixedCompletions([]string{api.StepMinute, api.StepHour, api.StepDay}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func stats(t *cli.Table, items []api.StatsItem) {
	t.Head("AT", "SUBMITTED", "STARTED", "COMPLETED", "FAILED ATTEMPTS", "DEAD", "CANCELLED", cli.Minor("MEAN WAIT"), cli.Least("MEAN RUN"))
	for _, one := range items {
		if one == (api.StatsItem{At: one.At}) {
			continue
		}
		t.Row(one.At, one.Submitted, one.Started, one.Completed, one.FailedAttempts, one.DeadLetter, one.Cancelled,
			mean(one.WaitingMS, one.Started), mean(one.RunningMS, one.Started))
	}
}

// mean is that of a sum of milliseconds.
func mean(sum, n int64) string {
	if n == 0 {
		return ""
	}
	one := time.Duration(sum/n) * time.Millisecond
	if one >= time.Minute {
		one = one.Round(time.Second)
	}
	return one.String()
}
