package admin

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newAudit(a *cli.App) *cobra.Command {
	var page cli.Paging
	var filter api.AuditFilter
	var operator bool
	after, before := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "audit",
		Short: "List audit entries, newest first: who changed what",
		Long: `List who changed what in the tenant: redrives and discards, settings of queues, keys, limits. It needs a key with the
scope manage. With --operator it lists the changes of all tenants, and needs the operator's key.`,
		Example: "  forgequeue audit --action queue.pause --from 24h",
		Args:    cobra.NoArgs,
	}
	page.Flags(command)
	flags := command.Flags()
	flags.StringVar(&filter.Action, "action", "", "this action, such as dead_letter.discard")
	flags.StringVar(&filter.Object, "object", "", "changes of this object: a queue's name, the id of a job, a key, a redrive")
	flags.StringVar(&filter.KeyID, "key-id", "", "changes made with this key")
	flags.Var(&after, "from", "from this time on, or within this long, such as 2h")
	flags.Var(&before, "to", "before this time, or longer ago than this")
	flags.BoolVar(&operator, "operator", false, "of all tenants, with the operator's key")
	flags.StringVar(&filter.Tenant, "tenant", "", "with --operator: of this tenant")
	_ = command.RegisterFlagCompletionFunc("action", cobra.FixedCompletions(api.AuditActions(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	run := func(ctx context.Context, s *cli.Session, _ []string) error {
		filter.After, filter.Before = after.At, before.At
		read := s.Client.Audit
		if operator {
			read = s.Client.AdminAudit
		}
		return cli.ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[api.AuditEntry], error) {
			return read(ctx, filter, p)
		}, auditEntries)
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		switch {
		case operator:
			return a.AsOperator(run)(command, args)
		case filter.Tenant != "":
			return cli.Usage("--tenant goes with --operator; a tenant's key sees its own")
		}
		return a.AsTenant(run)(command, args)
	}
	return command
}

func auditEntries(t *cli.Table, all []api.AuditEntry) {
	t.Head("AT", "WHO", cli.Minor("KEY"), "ACTION", "OBJECT", cli.Long("DETAIL"))
	for _, entry := range all {
		who := entry.Actor.Kind
		if entry.Actor.User != nil {
			who += " " + *entry.Actor.User
		}
		t.Row(entry.At, who, cli.OrElse(entry.Actor.KeyID, ""), entry.Action, cli.OrElse(entry.Object, ""), cli.Brief(string(entry.Detail)))
	}
}
