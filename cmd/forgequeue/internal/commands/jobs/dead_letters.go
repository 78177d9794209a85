package jobs

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newDeadLetters(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "dead-letter",
		Aliases: []string{"dead-letters"},
		Short:   "List and group dead letters, queue them again, or discard them",
		Args:    cobra.NoArgs,
	}
	list := newDeadLettersList(a)
	command.Flags().AddFlagSet(list.Flags()) // `dead-letter` alone is the list
	command.RunE = list.RunE
	command.AddCommand(list, newDeadLettersGroups(a), newDeadLettersRedrive(a), newDeadLettersDiscard(a))
	return command
}

// deadLetterFilter is the filter of list, groups, redrive and discard.
type deadLetterFilter struct {
	api.DeadLetterFilter
	after, before cli.Instant
}

func newDeadLetterFilter(command *cobra.Command) *deadLetterFilter {
	f := &deadLetterFilter{after: cli.Instant{Back: true}, before: cli.Instant{Back: true}}
	flags := command.Flags()
	flags.StringVarP(&f.Queue, "queue", "q", "", "of this queue")
	flags.StringVar(&f.Type, "type", "", "of this type")
	flags.StringVar(&f.Reason, "reason", "", "dead for this reason: exhausted, permanent, worker_lost, deadline")
	flags.StringVar(&f.Fingerprint, "fingerprint", "", "of this kind of failure, as the list shows it")
	flags.Var(&f.after, "died-after", "died after this time, or within this long, such as 2h")
	flags.Var(&f.before, "died-before", "died before this time, or longer ago than this")
	_ = command.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions([]cobra.Completion{
		api.ReasonExhausted, api.ReasonPermanent, api.ReasonWorkerLost, api.ReasonDeadline,
	}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	return f
}

func (f *deadLetterFilter) filter() api.DeadLetterFilter {
	whole := f.DeadLetterFilter
	whole.After, whole.Before = f.after.At, f.before.At
	return whole
}

func newDeadLettersList(a *cli.App) *cobra.Command {
	var page cli.Paging
	command := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters with reason and time, newest job first",
		Example: "  forgequeue dead-letter list --queue mail --died-after 24h",
		Args:    cobra.NoArgs,
	}
	filter := newDeadLetterFilter(command)
	page.Flags(command)
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
		return cli.ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[api.DeadLetter], error) {
			return s.Client.DeadLetters(ctx, filter.filter(), p)
		}, deadLetters)
	})
	return command
}

func deadLetters(t *cli.Table, all []api.DeadLetter) {
	t.Head("ID", "REASON", "TYPE", cli.Minor("QUEUE"), cli.Least("ATTEMPTS"), "DIED", cli.Minor("FINGERPRINT"), cli.Long("ERROR"))
	for _, dead := range all {
		t.Row(dead.Job.ID, dead.Reason, dead.Job.Type, dead.Job.Queue, dead.Attempts, dead.DiedAt, dead.Fingerprint, failure(dead.Error))
	}
}

func newDeadLettersGroups(a *cli.App) *cobra.Command {
	var size int
	command := &cobra.Command{
		Use:     "groups",
		Short:   "Count dead letters by fingerprint, the largest group first",
		Example: "  forgequeue dead-letter groups --died-after 24h",
		Args:    cobra.NoArgs,
	}
	filter := newDeadLetterFilter(command)
	command.Flags().IntVar(&size, "limit", api.DefaultPageSize, "how many groups to show at most")
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
		groups, err := s.Client.DeadLetterGroups(ctx, filter.filter(), size)
		if err != nil {
			return err
		}
		err = s.Show(groups, func(t *cli.Table) { deadLetterGroups(t, groups.Items) })
		if err == nil && groups.ReadCapped {
			s.Note("Only the newest %d dead letters were read: each count is at least that.", groups.Read)
		}
		if more := groups.Groups - int64(len(groups.Items)); err == nil && more > 0 {
			s.Note("%d groups more; --limit, or a filter, shows others.", more)
		}
		return err
	})
	return command
}

func deadLetterGroups(t *cli.Table, groups []api.DeadLetterGroup) {
	t.Head("COUNT", "FINGERPRINT", cli.Minor("REASON"), "TYPE", cli.Minor("QUEUE"), cli.Minor("FIRST"), "LAST", cli.Long("ERROR"))
	for _, group := range groups {
		t.Row(group.Count, group.Fingerprint, group.Reason, group.Type, group.Queue, group.FirstDiedAt, group.LastDiedAt, failure(group.Example.Error))
	}
}

func newDeadLettersRedrive(a *cli.App) *cobra.Command {
	var o bulk
	command := &cobra.Command{
		Use:   "redrive [ID...]",
		Short: "Queue dead letters again, by id or by filter",
		Long: `Queue dead letters again: those that are named, or all that match the flags of the list (--all for every
one). Each keeps its id and starts with attempt 1. --dry-run only counts them.

By filter the server queues them, --rate a second, and this command only watches. If you interrupt it, the server continues
until all are queued or you run "forgequeue redrive cancel". Under a full cap on active jobs it waits for room.

With --canary N the server queues a sample of N first, some of each cause. When all of them have ended and at least the
share --success completed, it continues with the others. Otherwise it stops, says why, and leaves the others dead.`,
		Example: `  forgequeue dead-letter redrive 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10
  forgequeue dead-letter redrive --queue mail --reason worker_lost --dry-run
  forgequeue dead-letter redrive --queue mail --rate 100
  forgequeue dead-letter redrive --queue mail --canary 20 --success 0.9`,
	}
	o.flags(command)
	o.verb, o.done = "redrive", "queued again"
	o.send, o.count = (*client.Client).RedriveDeadLetters, (*client.Client).RedriveDryRun
	o.start, o.startCareful = (*client.Client).RedriveMatching, (*client.Client).RedriveWithCanary
	o.canary.flags(command)
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, ids []string) error { return runBulk(ctx, s, &o, ids) })
	return command
}

func newDeadLettersDiscard(a *cli.App) *cobra.Command {
	var o bulk
	command := &cobra.Command{
		Use:   "discard [ID...]",
		Short: "Delete dead letters, by id or by filter",
		Long: `Delete dead letters permanently: those that are named, or all that match the flags of the list (--all for every
one). On a terminal it asks first; otherwise it needs --yes. --dry-run says how many there are.`,
		Example: `  forgequeue dead-letter discard --type mail --died-before 168h --dry-run
  forgequeue dead-letter discard --type mail --died-before 168h --yes`,
	}
	o.flags(command)
	o.verb, o.done, o.irreversible = "discard", "discarded", true
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do it without asking")
	o.send, o.count = (*client.Client).DiscardDeadLetters, (*client.Client).DiscardDryRun
	o.start = (*client.Client).DiscardMatching
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, ids []string) error { return runBulk(ctx, s, &o, ids) })
	return command
}
