package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) deadLetters() *cobra.Command {
	command := &cobra.Command{
		Use:     "dead-letters",
		Aliases: []string{"dead-letter"},
		Short:   "List and group dead letters, queue them again, or discard them",
	}
	command.AddCommand(a.deadLettersList(), a.deadLettersGroups(), a.deadLettersRedrive(), a.deadLettersDiscard())
	return command
}

// deadFilter is the filter that list, groups, redrive and discard share.
type deadFilter struct {
	api.DeadLetterFilter
	after, before instant
}

func newDeadFilter(command *cobra.Command) *deadFilter {
	f := &deadFilter{after: instant{back: true}, before: instant{back: true}}
	flags := command.Flags()
	flags.StringVarP(&f.Queue, "queue", "q", "", "of this queue")
	flags.StringVar(&f.Type, "type", "", "of this type")
	flags.StringVar(&f.Reason, "reason", "", "dead for this reason: exhausted, permanent, worker_lost, deadline")
	flags.StringVar(&f.Fingerprint, "fingerprint", "", "of this kind of failure, as the list shows it")
	flags.Var(&f.after, "after", "died after this time, or within this long, such as 2h")
	flags.Var(&f.before, "before", "died before this time, or longer ago than this")
	_ = command.RegisterFlagCompletionFunc("reason", cobra.FixedCompletions([]cobra.Completion{
		api.ReasonExhausted, api.ReasonPermanent, api.ReasonWorkerLost, api.ReasonDeadline,
	}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	return f
}

func (f *deadFilter) filter() api.DeadLetterFilter {
	whole := f.DeadLetterFilter
	whole.After, whole.Before = f.after.at, f.before.at
	return whole
}

func (a *App) deadLettersList() *cobra.Command {
	var page paging
	command := &cobra.Command{
		Use:     "list",
		Short:   "List dead letters with why and when they died, newest job first",
		Example: "  forgequeue dead-letters list --queue mail --after 24h",
		Args:    cobra.NoArgs,
	}
	filter := newDeadFilter(command)
	page.flags(command)
	command.RunE = a.asTenant(func(ctx context.Context, s *session, _ []string) error {
		list, err := collect(page, func(p client.PageRequest) (api.Page[api.DeadLetter], error) {
			return s.client.DeadLetters(ctx, filter.filter(), p)
		})
		if err != nil {
			return err
		}
		return showPage(s, list, func(t *table) { deadLetters(t, list.Items) })
	})
	return command
}

func deadLetters(t *table, all []api.DeadLetter) {
	t.row("ID", "REASON", "TYPE", "QUEUE", "ATTEMPTS", "DIED", "FINGERPRINT", "ERROR")
	for _, dead := range all {
		text := ""
		if dead.Error != nil {
			text = brief(dead.Error.Type + ": " + dead.Error.Message)
		}
		t.row(dead.Job.ID, dead.Reason, dead.Job.Type, dead.Job.Queue, dead.Attempts, stamp(&dead.DiedAt), dead.Fingerprint, text)
	}
}

func (a *App) deadLettersGroups() *cobra.Command {
	var size int
	command := &cobra.Command{
		Use:     "groups",
		Short:   "Count dead letters by kind of failure, the most frequent first",
		Example: "  forgequeue dead-letters groups --after 24h",
		Args:    cobra.NoArgs,
	}
	filter := newDeadFilter(command)
	command.Flags().IntVar(&size, "limit", api.DefaultPageSize, "how many groups to show at most")
	command.RunE = a.asTenant(func(ctx context.Context, s *session, _ []string) error {
		groups, err := s.client.DeadLetterGroups(ctx, filter.filter(), size)
		if err != nil {
			return err
		}
		err = s.show(groups, func(t *table) { deadLetterGroups(t, groups.Items) })
		if err == nil && groups.ReadCapped {
			s.note("Only the newest %d dead letters were read: each count is at least that.", groups.Read)
		}
		if more := groups.Groups - int64(len(groups.Items)); err == nil && more > 0 {
			s.note("%d groups more; --limit, or a filter, shows others.", more)
		}
		return err
	})
	return command
}

func deadLetterGroups(t *table, groups []api.DeadLetterGroup) {
	t.row("COUNT", "FINGERPRINT", "REASON", "TYPE", "QUEUE", "FIRST", "LAST", "ERROR")
	for _, group := range groups {
		text := ""
		if failure := group.Example.Error; failure != nil {
			text = brief(failure.Type + ": " + failure.Message)
		}
		t.row(group.Count, group.Fingerprint, group.Reason, group.Type, group.Queue, stamp(&group.FirstDiedAt), stamp(&group.LastDiedAt), text)
	}
}

func (a *App) deadLettersRedrive() *cobra.Command {
	var o settling
	command := &cobra.Command{
		Use:   "redrive [ID...]",
		Short: "Queue dead letters again, by id or by filter",
		Long: `Queue dead letters again: those that are named, or all that match the flags of the list (--all for every
one). Each keeps its id and starts with attempt 1. --dry-run says how many it would be.

By filter the server does it, at --rate a second, and this only watches: what is interrupted here goes on there, until
it is done or "forgequeue redrives cancel" ends it. Under a full cap on active jobs it waits for room.`,
		Example: `  forgequeue dead-letters redrive 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10
  forgequeue dead-letters redrive --queue mail --reason worker_lost --dry-run
  forgequeue dead-letters redrive --queue mail --rate 100`,
	}
	o.flags(command)
	o.verb, o.done = "redrive", "queued again"
	o.send, o.count = (*client.Client).RedriveDeadLetters, (*client.Client).RedriveDryRun
	o.begin = (*client.Client).RedriveMatching
	command.RunE = a.asTenant(func(ctx context.Context, s *session, ids []string) error { return s.settle(ctx, &o, ids) })
	return command
}

func (a *App) deadLettersDiscard() *cobra.Command {
	var o settling
	command := &cobra.Command{
		Use:   "discard [ID...]",
		Short: "Forget dead letters for good, by id or by filter",
		Long: `Forget dead letters for good: those that are named, or all that match the flags of the list (--all for every
one). On a terminal it asks first; elsewhere it wants --yes. --dry-run says how many it would be.`,
		Example: `  forgequeue dead-letters discard --type mail --before 168h --dry-run
  forgequeue dead-letters discard --type mail --before 168h --yes`,
	}
	o.flags(command)
	o.verb, o.done, o.asks = "discard", "discarded", true
	command.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	o.send, o.count = (*client.Client).DiscardDeadLetters, (*client.Client).DiscardDryRun
	o.begin = (*client.Client).DiscardMatching
	command.RunE = a.asTenant(func(ctx context.Context, s *session, ids []string) error { return s.settle(ctx, &o, ids) })
	return command
}
