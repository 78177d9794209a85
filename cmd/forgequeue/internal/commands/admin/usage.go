package admin

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newUsage(a *cli.App) *cobra.Command {
	var request client.UsageRequest
	var all bool
	from, to := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "usage",
		Short: "Show exactly how many jobs were accepted and ended, by day, type or user",
		Long: `Show exact counts of jobs, of whole days of UTC. Numbers of a day are final some minutes after its end; those that may
still grow are marked as open.`,
		Example: "  forgequeue usage --from 2026-11-01 --to 2026-11-30 --by type",
		Args:    cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			request.From, request.To = from.Day(), to.Day()
			made, err := wholeUsage(ctx, s.Client, request)
			if err != nil {
				return err
			}
			if !all && !s.JSON {
				busy := slices.DeleteFunc(slices.Clone(made.Items), func(one api.UsageItem) bool {
					return one == api.UsageItem{Day: one.Day, Type: one.Type, User: one.User, Open: one.Open}
				})
				if hidden := len(made.Items) - len(busy); hidden > 0 {
					s.Note("%d rows without jobs are hidden; --all shows them.", hidden)
				}
				made.Items = busy
			}
			if made.Capped {
				s.Note("a day that is not closed has more jobs than were counted")
			}
			return s.Show(made, func(t *cli.Table) { usage(t, &made) })
		}),
	}
	flags := command.Flags()
	flags.Var(&from, "from", "from the day of this time on, such as 2026-11-01 (default the first of the month)")
	flags.Var(&to, "to", "to the day of this time, which is included (default today)")
	flags.BoolVar(&all, "all", false, "show rows without jobs too")
	flags.StringVar(&request.By, "by", "", "day, type or user (default day)")
	// It fails only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{api.ByDay, api.ByType, api.ByUser}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

// wholeUsage reads all pages.
func wholeUsage(ctx context.Context, c *client.Client, request client.UsageRequest) (api.Usage, error) {
	page := client.PageRequest{Size: api.MaxPageSize}
	whole, err := c.Usage(ctx, request, page)
	for err == nil && whole.NextPageToken != nil {
		page.Token = *whole.NextPageToken
		var next api.Usage
		next, err = c.Usage(ctx, request, page)
		whole.Items, whole.NextPageToken = append(whole.Items, next.Items...), next.NextPageToken
	}
	return whole, err
}

func usage(t *cli.Table, made *api.Usage) {
	t.Head(map[string]string{api.ByDay: "DAY", api.ByType: "TYPE", api.ByUser: "USER"}[made.By], "ACCEPTED", "COMPLETED", "CANCELLED", "DEAD", cli.Minor("REDRIVEN"),
		cli.Minor("DISCARDED"), cli.Minor("RAN"), cli.Minor("FAILED FOR"), cli.Minor("FINAL"))
	for _, one := range made.Items {
		name := cli.OrElse(one.Day, cli.OrElse(one.Type, cli.OrElse(one.User, "")))
		final := "yes"
		if one.Open {
			final = "open"
		}
		t.Row(name, one.Accepted, one.Completed, one.Cancelled, one.DeadLetter, one.Redriven, one.Discarded, cli.Milliseconds(one.RunningMS), cli.Milliseconds(one.FailedRunningMS), final)
	}
}
