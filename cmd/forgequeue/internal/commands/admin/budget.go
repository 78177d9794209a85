package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newBudget(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "budget",
		Aliases: []string{"budgets"},
		Short:   "Budgets, which bound what jobs use of something in a time: set, list, get, usage, delete",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List budgets with what is available, and how many jobs wait", (*client.Client).Budgets, budgets)
	command.Flags().AddFlagSet(list.Flags()) // `budget` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list, newBudgetSet(a), newBudgetGet(a), newBudgetUsage(a),
		cli.Delete(a.AsTenant, "delete NAME", "Delete a budget and its usage; jobs that wait for it do not any more", (*client.Client).DeleteBudget),
	)
	return command
}

func budgets(t *cli.Table, all []api.Budget) {
	t.Head("NAME", "AMOUNT", "AVAILABLE", "RESERVED", "WAITING", "STATE")
	for _, one := range all {
		t.Row(one.Name, amountOf(one), cli.OrElse(available(one), ""), one.Reserved, one.Waiting, budgetState(one))
	}
}

// amountOf is such as "400000 tokens per 1m, by user".
func amountOf(one api.Budget) string {
	text := fmt.Sprintf("%d %s per ", one.Amount, one.Unit)
	if one.PerMS != nil {
		text += cli.Milliseconds(*one.PerMS)
	} else {
		text += cli.OrElse(one.Window, "")
	}
	if one.By != nil {
		text += ", by " + *one.By
	}
	return text
}

func available(one api.Budget) *string {
	if one.Available == nil {
		return nil
	}
	return new(fmt.Sprint(*one.Available))
}

func budgetState(one api.Budget) cli.Cell {
	switch {
	case one.ClosedUntil != nil:
		return cli.Coloured("closed", cli.Red)
	case one.Waiting > 0:
		return cli.Coloured("used up", cli.Yellow)
	}
	return cli.Coloured("open", cli.Green)
}

func describeBudget(t *cli.Table, one api.Budget) {
	t.Pair("name", one.Name)
	t.Pair("state", budgetState(one))
	t.Pair("label", cli.OrElse(one.Label, ""))
	t.Pair("amount", amountOf(one))
	if one.Burst != nil {
		t.Pair("burst", *one.Burst)
	}
	if one.Window != nil {
		t.Pair("timezone", one.Timezone)
	}
	t.Pair("available", cli.OrElse(available(one), ""))
	t.Pair("reserved", one.Reserved)
	t.Pair("waiting jobs", one.Waiting)
	t.Pair("closed until", one.ClosedUntil)
}

func newBudgetGet(a *cli.App) *cobra.Command {
	var subject string
	command := &cobra.Command{
		Use:     "get NAME",
		Short:   "Show a budget: its amount, what is available, and how many jobs wait",
		Example: "  forgequeue budget get openai",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			one, err := s.Client.Budget(ctx, args[0], subject)
			if err != nil {
				return err
			}
			return s.Show(one, func(t *cli.Table) { describeBudget(t, one) })
		}),
	}
	command.Flags().StringVar(&subject, "subject", "", "of a budget by user or key: the user or key whose available amount is shown")
	return command
}

func newBudgetUsage(a *cli.App) *cobra.Command {
	from, to := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "usage NAME",
		Short: "Show what was used of a budget, by day",
		Long: `Show what attempts that started on a day (UTC) reserved of a budget and have used. What was used above what the attempt
had reserved is shown as overdrawn. Days without usage are left out.`,
		Example: "  forgequeue budget usage openai --from 2026-11-01",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			made, err := s.Client.BudgetUsage(ctx, args[0], from.Day(), to.Day())
			if err != nil {
				return err
			}
			return s.Show(made, func(t *cli.Table) {
				t.Head("DAY", "RESERVED", "USED", "OVERDRAWN", "UNIT")
				for _, day := range made.Days {
					t.Row(day.Day, day.Reserved, day.Used, day.Overdrawn, made.Unit)
				}
			})
		}),
	}
	command.Flags().Var(&from, "from", "from the day of this time on, such as 2026-11-01 (default the first of the month)")
	command.Flags().Var(&to, "to", "to the day of this time, which is included (default today)")
	return command
}

// budgetFlags are a budget's settings as flags.
type budgetFlags struct {
	unit, window, timezone, by string
	amount, burst              int64
	per                        time.Duration
}

func newBudgetSet(a *cli.App) *cobra.Command {
	var f budgetFlags
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a budget, or change its settings",
		Long: `Create a budget, or change its settings. What is not given stays as it is. Jobs say what they may use with
submit --cost NAME=AMOUNT; an attempt starts when so much is available. A budget that a worker has closed is open again then.`,
		Example: "  forgequeue budget set openai --unit tokens --amount 400000 --per 1m\n" +
			"  forgequeue budget set spend --unit cents --amount 5000 --window day --timezone Europe/Berlin --by user",
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error { return setBudget(ctx, s, args[0], &f) }),
	}
	flags := command.Flags()
	flags.StringVar(&f.unit, "unit", "", "what the amount counts, such as tokens or cents")
	flags.Int64Var(&f.amount, "amount", 0, "how much may be used in the time")
	flags.DurationVar(&f.per, "per", 0, "the time, such as 1m: what an attempt uses is free again so long after its start")
	flags.StringVar(&f.window, "window", "", "hour, day or month of the calendar in the place of --per")
	flags.StringVar(&f.timezone, "timezone", "", "that of --window, such as Europe/Berlin (default UTC)")
	flags.Int64Var(&f.burst, "burst", 0, "with --per: how much may be used at once, and in a part of the time that is as much shorter (default the amount)")
	flags.StringVar(&f.by, "by", "", "user or key: each has an amount of its own; it cannot be changed later")
	// They fail only for a flag that is not there.
	_ = command.RegisterFlagCompletionFunc("window", cobra.FixedCompletions([]string{api.BudgetHour, api.BudgetDay, api.BudgetMonth}, cobra.ShellCompDirectiveNoFileComp))
	_ = command.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{api.BudgetByUser, api.BudgetByKey}, cobra.ShellCompDirectiveNoFileComp))
	return command
}

func setBudget(ctx context.Context, s *cli.Session, name string, f *budgetFlags) error {
	var request api.BudgetRequest
	// The API replaces all settings, so those that are not given are sent as they are.
	one, err := s.Client.Budget(ctx, name, "")
	switch {
	case err == nil:
		request = one.Request()
	case !cli.IsNotFound(err):
		return err
	}
	command := s.Command
	if unit := cli.Given(command, "unit", f.unit); unit != nil {
		request.Unit = *unit
	}
	if amount := cli.Given(command, "amount", f.amount); amount != nil {
		request.Amount = *amount
	}
	if per := cli.GivenMS(command, "per", f.per); per != nil {
		request.PerMS, request.Window, request.Timezone = per, nil, ""
	}
	if window := cli.Given(command, "window", f.window); window != nil {
		request.PerMS, request.Burst, request.Window = nil, nil, window
	}
	if zone := cli.Given(command, "timezone", f.timezone); zone != nil {
		request.Timezone = *zone
	}
	replace(&request.Burst, cli.Given(command, "burst", f.burst))
	replace(&request.By, cli.Given(command, "by", f.by))
	made, err := s.Client.PutBudget(ctx, name, request)
	if err != nil {
		return err
	}
	return s.Show(made, func(t *cli.Table) { describeBudget(t, made) })
}
