package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ListBudgets lists budgets.
//
//	@Description The tenant's budgets by name, with what is available of each and how many jobs wait for it.
//	@Success     200 {object} api.Page[api.Budget] "A page of budgets."
func (h *Handlers) ListBudgets(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.Paged(ctx, h.core, c, hop.ListBudgets)
}

// GetBudget reads a budget.
//
//	@Description Its settings, what attempts may reserve now (`available`), what running ones have reserved, and how many jobs wait for it. `available` may be below zero: an attempt used more than it had reserved.
//	@Param       subject query string false "Of a budget by user or key: the user or key whose `available` is shown. Absent: `available` is null."
//	@Success     200 {object} api.Budget "The budget."
func (h *Handlers) GetBudget(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	q := request.NewQuery(c.Query)
	asked := hop.GetBudgetRequest{Name: name}
	if subject := q.Label("subject"); subject != "" {
		asked.Subject = &subject
	}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.GetBudget, asked)
}

// PutBudget sets a budget.
//
//	@Description Creates the budget, or replaces its settings: absent fields get their defaults. Jobs name what they may use in `costs`. An attempt starts when all its budgets have so much available, and reserves it; when it ends, `used` counts in its place, from its start on. So in any time of `per_ms`, or in a window of the calendar, what is reserved and used together is at most `amount`, and what attempts use above what they reserved.
//	@Description
//	@Description What is used is free again `per_ms` after the start of its attempt. With `burst`, at most so much is used at once and in a part of `per_ms` that is as much shorter (or longer): 60,000 a minute with a burst of 1,000 is at most 1,000 in any second. A budget that a worker has closed with `throttle` is open again after a PUT.
//	@Param       budget body api.BudgetRequest true "The settings."
//	@Success     200 {object} api.Budget "The budget as it is now."
//	@x-example-tokens  {"unit": "tokens", "amount": 400000, "per_ms": 60000}
//	@x-example-dollars {"unit": "cents", "amount": 5000, "window": "day", "timezone": "Europe/Berlin", "by": "user"}
func (h *Handlers) PutBudget(ctx context.Context, c *call.Call, r api.BudgetRequest) (call.Passed, error) {
	return call.Put(ctx, h.core, c, hop.PutBudget, r)
}

// DeleteBudget deletes a budget.
//
//	@Description Deletes the budget and its usage. Jobs that wait for it do not any more, and costs that name it are ignored.
//	@Success     204 "The budget is deleted."
func (h *Handlers) DeleteBudget(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return call.NoContent(call.ByName(ctx, h.core, c, hop.DeleteBudget))
}

// BudgetUsage reads a budget's usage.
//
//	@Description What attempts have reserved and used of the budget, by the day (of UTC) on which they started. The numbers are exact, and change until the last attempt of a day has ended. Days without usage are left out.
//	@ID          readBudgetUsage
//	@Param       from query string false "The first day; absent: the first of the month of `to`." Format(date)
//	@Param       to   query string false "The last day, included; absent: today. At most 366 days." Format(date)
//	@Success     200 {object} api.BudgetUsages "The days."
func (h *Handlers) BudgetUsage(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	name, err := c.Name()
	if err != nil {
		return call.Passed{}, err
	}
	q := request.NewQuery(c.Query)
	asked := hop.BudgetUsageRequest{Name: name, From: q.Date("from"), To: q.Date("to")}
	if err := q.Err(); err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.GetBudgetUsage, asked)
}
