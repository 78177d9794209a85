package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) audit() *cobra.Command {
	var page paging
	var filter api.AuditFilter
	var operator bool
	after, before := instant{back: true}, instant{back: true}
	command := &cobra.Command{
		Use:   "audit",
		Short: "List who redrove, discarded, changed or revoked what, newest first",
		Long: `List who did what to what is the tenant's: redrives and discards, settings of queues, keys, limits. It needs a key
with the scope manage. With --operator it is of all tenants, and needs the operator's key.`,
		Example: "  forgequeue audit --action queue.pause --after 24h",
		Args:    cobra.NoArgs,
	}
	page.flags(command)
	flags := command.Flags()
	flags.StringVar(&filter.Action, "action", "", "this action, such as dead_letter.discard")
	flags.StringVar(&filter.Object, "object", "", "done to this: a queue's name, the id of a job, a key, a redrive")
	flags.StringVar(&filter.KeyID, "key-id", "", "done with this key")
	flags.Var(&after, "after", "after this time, or within this long, such as 2h")
	flags.Var(&before, "before", "before this time, or longer ago than this")
	flags.BoolVar(&operator, "operator", false, "of all tenants, with the operator's key")
	flags.StringVar(&filter.Tenant, "tenant", "", "with --operator: of this tenant")
	_ = command.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(api.AuditActions(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	run := func(ctx context.Context, s *session, _ []string) error {
		filter.After, filter.Before = after.at, before.at
		read := s.client.Audit
		if operator {
			read = s.client.AdminAudit
		}
		list, err := collect(page, func(p client.PageRequest) (api.Page[api.AuditEntry], error) { return read(ctx, filter, p) })
		if err != nil {
			return err
		}
		return showPage(s, list, func(t *table) { auditEntries(t, list.Items) })
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case operator:
			return a.asOperator(run)(command, args)
		case filter.Tenant != "":
			return usage("--tenant goes with --operator; a tenant's key sees its own")
		}
		return a.asTenant(run)(command, args)
	}
	return command
}

func auditEntries(t *table, all []api.AuditEntry) {
	t.row("AT", "WHO", "KEY", "ACTION", "OBJECT", "DETAIL")
	for _, entry := range all {
		who, key, object := entry.Actor.Kind, "", ""
		if entry.Actor.User != nil {
			who += " " + *entry.Actor.User
		}
		if entry.Actor.KeyID != nil {
			key = *entry.Actor.KeyID
		}
		if entry.Object != nil {
			object = *entry.Object
		}
		t.row(stamp(&entry.At), who, key, entry.Action, object, brief(string(entry.Detail)))
	}
}
