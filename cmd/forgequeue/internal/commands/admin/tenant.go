package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newTenant(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "tenant",
		Aliases: []string{"tenants"},
		Short:   "Create, list, change and delete tenants (operator)",
		Long:    "List, create and change tenants. This needs the operator's key, in FORGEQUEUE_OPERATOR_KEY.",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsOperator, "list", "List tenants, newest first", (*client.Client).ListTenants, tenants)
	command.Flags().AddFlagSet(list.Flags()) // `tenant` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		newTenantCreate(a), list,
		cli.Call(a.AsOperator, "get ID", "Show a tenant, and the progress of its deletion", (*client.Client).GetTenant, describeTenant),
		newTenantSet(a), newTenantDelete(a), newTenantStats(a),
	)
	return command
}

func newTenantCreate(a *cli.App) *cobra.Command {
	var plan, cell string
	var weight int
	command := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a tenant",
		Example: "  forgequeue tenant create \"Shop Berlin\" --plan standard",
		Args:    cli.One(),
	}
	command.Flags().StringVar(&plan, "plan", "standard", "the plan whose limits apply")
	command.Flags().IntVar(&weight, "weight", 1, "share of workers that serve many tenants, 1 to 1000")
	command.Flags().StringVar(&cell, "cell", "", "the cell that is to have its jobs, where there are several; otherwise the one with the most room")
	command.RunE = a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
		tenant, err := s.Client.CreateTenant(ctx, api.TenantRequest{
			Name: args[0], Plan: cli.Given(command, "plan", plan), Weight: cli.Given(command, "weight", weight), Cell: cli.Given(command, "cell", cell),
		})
		if err != nil {
			return err
		}
		return s.Show(tenant, func(t *cli.Table) { tenants(t, []api.Tenant{tenant}) })
	})
	return command
}

func newTenantDelete(a *cli.App) *cobra.Command {
	var sure bool
	command := &cobra.Command{
		Use:   "delete ID",
		Short: "Revoke a tenant's keys and remove all of its data",
		Long: `Revoke a tenant's keys at once and remove all of its data, jobs that run included. The server does it in the background; tenant get
shows how far it is. It cannot be undone, so it requires --yes. The audit log stays.`,
		Example: "  forgequeue tenant delete 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --yes",
		Args:    cli.One(),
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
			if !sure {
				return cli.Usage("this removes all data of the tenant %s permanently; pass --yes to confirm", args[0])
			}
			tenant, err := s.Client.DeleteTenant(ctx, args[0])
			if err != nil {
				return err
			}
			return s.Show(tenant, func(t *cli.Table) { describeTenant(t, tenant) })
		}),
	}
	command.Flags().BoolVarP(&sure, "yes", "y", false, "do it without asking")
	return command
}

func describeTenant(t *cli.Table, one api.Tenant) {
	t.Pair("id", one.ID)
	t.Pair("name", one.Name)
	t.Pair("label", cli.OrElse(one.Label, ""))
	t.Pair("plan", one.Plan)
	t.Pair("weight", strconv.Itoa(one.Weight))
	t.Pair("created", one.CreatedAt)
	t.Pair("overrides", overrides(one.Overrides))
	if deletion := one.Deletion; deletion != nil {
		t.Pair("deletion", fmt.Sprintf("%s; %d rows removed", deletion.State, deletion.Removed))
		t.Pair("asked for", deletion.RequestedAt)
		t.Pair("ended", deletion.EndedAt)
	}
}

func tenants(t *cli.Table, all []api.Tenant) {
	t.Head("ID", "NAME", "PLAN", cli.Minor("WEIGHT"), cli.Minor("CREATED"), cli.Long("OVERRIDES"))
	for _, one := range all {
		t.Row(one.ID, one.Name, one.Plan, one.Weight, one.CreatedAt, overrides(one.Overrides))
	}
}

// overrides are the limits that differ from the plan's, in the form of --limit and --user-limit.
func overrides(o api.Overrides) string {
	words := limitsThatAreSet(&o.Limits, "")
	for _, user := range slices.Sorted(maps.Keys(o.Users)) {
		words = append(words, limitsThatAreSet(new(o.Users[user]), user+":")...)
	}
	return strings.Join(words, " ")
}

// tenantFlags are the flags of tenant set.
type tenantFlags struct {
	name, plan string
	weight     int
	userLimits []string
	reset      bool
}

func newTenantSet(a *cli.App) *cobra.Command {
	var f tenantFlags
	command := &cobra.Command{
		Use:   "set ID [LIMIT=NUMBER...]",
		Short: "Change a tenant: name, plan, weight, overrides of limits",
		Long: `Change a tenant; what is not given stays. LIMIT=NUMBER replaces a limit of its plan for this tenant; plan get shows the names.
LIMIT=none returns to the plan's limit. --user-limit sets a limit of one user. --reset-limits removes all of them first.`,
		Example: `  forgequeue tenant set 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --plan standard max_active=500
  forgequeue tenant set 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --user-limit ada:max_running=2`,
		Args: cli.First,
		RunE: a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
			return setTenant(ctx, s, args[0], args[1:], &f)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&f.name, "name", "", "another name")
	flags.StringVar(&f.plan, "plan", "", "another plan")
	flags.IntVar(&f.weight, "weight", 1, "share of workers that serve many tenants, 1 to 1000")
	flags.StringArrayVar(&f.userLimits, "user-limit", nil, "USER:NAME=NUMBER or USER:NAME=none; repeatable")
	flags.BoolVar(&f.reset, "reset-limits", false, "remove all overrides first")
	return command
}

func setTenant(ctx context.Context, s *cli.Session, id string, limits []string, f *tenantFlags) error {
	patch := api.TenantPatch{
		Name: cli.Given(s.Command, "name", f.name), Plan: cli.Given(s.Command, "plan", f.plan), Weight: cli.Given(s.Command, "weight", f.weight),
	}
	if len(limits) > 0 || len(f.userLimits) > 0 || f.reset {
		changed := api.Overrides{}
		if !f.reset {
			// The API replaces all overrides, so those that are not given are sent as they are.
			before, err := s.Client.GetTenant(ctx, id)
			if err != nil {
				return err
			}
			changed = before.Overrides
		}
		if err := f.apply(&changed, limits); err != nil {
			return err
		}
		patch.Overrides = &changed
	}
	if patch == (api.TenantPatch{}) {
		return cli.Usage("say what to change: --name, --plan, --weight, LIMIT=NUMBER, --user-limit or --reset-limits")
	}
	tenant, err := s.Client.PatchTenant(ctx, id, patch)
	if err != nil {
		return err
	}
	return s.Show(tenant, func(t *cli.Table) { tenants(t, []api.Tenant{tenant}) })
}

func (f *tenantFlags) apply(changed *api.Overrides, limits []string) error {
	if err := applyLimits("", &changed.Limits, limits); err != nil {
		return err
	}
	for _, text := range f.userLimits {
		// A user's name may contain = and :, the name of a limit and its value cannot.
		left, value, ok := cutLast(text, "=")
		user, name, named := cutLast(left, ":")
		if !ok || !named {
			return cli.Usage("--user-limit %q: must be USER:NAME=NUMBER or USER:NAME=none", text)
		}
		limits := changed.Users[user]
		if err := applyLimits("--user-limit ", &limits, []string{name + "=" + value}); err != nil {
			return err
		}
		if changed.Users == nil {
			changed.Users = map[string]api.Limits{}
		}
		changed.Users[user] = limits
		if limits == (api.Limits{}) {
			delete(changed.Users, user)
		}
	}
	return nil
}
