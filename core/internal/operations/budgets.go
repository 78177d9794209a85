package operations

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/pages"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PutBudget creates a budget, or replaces its settings; a closed one is open then.
//
//	@x-problems  ["not_found"]
//	@x-example-tokens {"name": "openai", "value": {"unit": "tokens", "amount": 400000, "per_ms": 60000}}
func (o *Operations) PutBudget(ctx context.Context, owner tenant.ID, item hop.Item[hop.Put[api.BudgetRequest]]) (api.Budget, error) {
	request := &item.Request
	if !api.ValidName(request.Name) {
		return api.Budget{}, store.ErrNotFound
	}
	// Validated by the gateway too, see submitCall.
	if fields := request.Value.Validate(); len(fields) > 0 {
		return api.Budget{}, problem.Invalid(fields...)
	}
	if err := o.Store.Budgets.Put(ctx, owner, request.Name, request.Value); err != nil {
		return api.Budget{}, err
	}
	o.Store.Gates.Appended()
	return o.Store.Budgets.Get(ctx, owner, request.Name, nil)
}

// GetBudget reads a budget: its settings, what is available, reserved, and how many jobs wait for it.
//
//	@x-problems  ["not_found"]
//	@x-example-budget {"name": "openai"}
func (o *Operations) GetBudget(ctx context.Context, owner tenant.ID, item hop.Item[hop.GetBudgetRequest]) (api.Budget, error) {
	return o.Store.Budgets.Get(ctx, owner, item.Request.Name, item.Request.Subject)
}

// ListBudgets lists budgets, by name.
func (o *Operations) ListBudgets(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Budget], error) {
	of := pages.ListingOf(hop.ListBudgets.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return pages.Listed(o.Pages, of, pages.ByText, func(one api.Budget) string { return one.Name }, func(after string, limit int) ([]api.Budget, error) {
		return o.Store.Budgets.List(ctx, owner, after, limit)
	})
}

// DeleteBudget deletes a budget, with what is known of its use. Jobs that wait for it do not any more.
//
//	@x-problems  ["not_found"]
//	@x-example-budget {"name": "openai"}
func (o *Operations) DeleteBudget(ctx context.Context, owner tenant.ID, item hop.Item[hop.Name]) (struct{}, error) {
	err := o.Store.Budgets.Delete(ctx, owner, item.Request.Name)
	if err == nil {
		o.Store.Gates.Appended()
	}
	return struct{}{}, err
}

// ReadBudgetUsage sums up what was used of a budget, by day of UTC.
//
//	@x-problems  ["not_found"]
//	@x-example-week {"name": "openai", "from": "2026-11-23", "to": "2026-11-29"}
func (o *Operations) ReadBudgetUsage(ctx context.Context, owner tenant.ID, item hop.Item[hop.BudgetUsageRequest]) (api.BudgetUsages, error) {
	days, refused, err := o.Store.Ledger.Range(ctx, hop.UsageRequest{From: item.Request.From, To: item.Request.To})
	if err != nil {
		return api.BudgetUsages{}, err
	}
	if refused != nil {
		return api.BudgetUsages{}, refused
	}
	return o.Store.Budgets.Usage(ctx, owner, item.Request.Name, days.From, days.To)
}

// knownCosts refuses costs of budgets that there are not, or that are above what one ever holds.
func (o *Operations) knownCosts(ctx context.Context, owner tenant.ID, costs api.Amounts) error {
	if len(costs) == 0 {
		return nil
	}
	known, err := o.Store.Budgets.Definitions(ctx, owner)
	if err != nil {
		return err
	}
	if wrong := known.Refuse(owner, costs); wrong != nil {
		return wrong
	}
	return nil
}
