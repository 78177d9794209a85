package admin

import (
	"context"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newPlan(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "plan",
		Aliases: []string{"plans"},
		Short:   "Show and set plans: named sets of limits (operator)",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsOperator, "list", "List the plans and the limits that each has", (*client.Client).ListPlans, plans)
	command.Flags().AddFlagSet(list.Flags()) // `plan` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list,
		cli.Call(a.AsOperator, "get NAME", "Show a plan's limits", (*client.Client).GetPlan, describePlan),
		newPlanSet(a),
	)
	return command
}

func plans(t *cli.Table, all []api.Plan) {
	t.Head("NAME", cli.Long("LIMITS"))
	for _, plan := range all {
		t.Row(plan.Name, cli.OrNone(strings.Join(limitsOf(plan), " ")))
	}
}

// limitsOf are the limits that a plan has.
func limitsOf(plan api.Plan) (limits []string) {
	limits = limitsThatAreSet(&plan.Limits, "")
	if plan.VisibilityTimeoutMSMax != nil {
		limits = append(limits, "max_visibility_timeout="+cli.Milliseconds(*plan.VisibilityTimeoutMSMax))
	}
	return limits
}

func describePlan(t *cli.Table, plan api.Plan) {
	t.Pair("name", plan.Name)
	t.Pair("label", cli.OrElse(plan.Label, ""))
	for _, limit := range plan.Limits.All() {
		t.Pair(limit.Name, limitText(limit))
	}
	longest := none
	if plan.VisibilityTimeoutMSMax != nil {
		longest = cli.Milliseconds(*plan.VisibilityTimeoutMSMax)
	}
	t.Pair("max visibility timeout", longest)
}

func newPlanSet(a *cli.App) *cobra.Command {
	var longest string
	var reset bool
	command := &cobra.Command{
		Use:   "set NAME [LIMIT=NUMBER...]",
		Short: "Create a plan, or change it for all of its tenants",
		Long: `Create a plan, or change it for all of its tenants. What is not given stays as it is; with --reset all
other limits are removed. "plan get" shows the names of the limits. LIMIT=none removes a limit.`,
		Example: "  forgequeue plan set standard requests_per_second=50 request_burst=100 max_active=none",
		Args:    cli.First,
	}
	command.Flags().StringVar(&longest, "max-visibility-timeout", "", "longest visibility timeout a queue may have, or none")
	command.Flags().BoolVar(&reset, "reset", false, "remove all limits that are not given")
	command.RunE = a.AsOperator(func(ctx context.Context, s *cli.Session, args []string) error {
		var request api.PlanRequest
		if !reset {
			plan, err := s.Client.GetPlan(ctx, args[0])
			if err != nil && !cli.IsNotFound(err) {
				return err
			}
			request = plan.Request()
		}
		if err := applyLimits("", &request.Limits, args[1:]); err != nil {
			return err
		}
		if command.Flags().Changed("max-visibility-timeout") {
			limit, err := limitOrNone("max-visibility-timeout", longest, parseMS)
			if err != nil {
				return err
			}
			request.VisibilityTimeoutMSMax = limit
		}
		plan, err := s.Client.PutPlan(ctx, args[0], request)
		if err != nil {
			return err
		}
		return s.Show(plan, func(t *cli.Table) { describePlan(t, plan) })
	})
	return command
}

// parseMS reads a duration such as 2m, or milliseconds.
func parseMS(text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return ms, nil
	}
	d, err := cli.ParseDuration(text)
	return d.Milliseconds(), err
}
