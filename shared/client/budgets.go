package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Budgets gives one page of the tenant's budgets, by name.
func (c *Client) Budgets(ctx context.Context, page PageRequest) (api.Page[api.Budget], error) {
	return list[api.Budget](ctx, c, page.query(), "budgets")
}

// Budget reads one budget. subject is the user or key of which Available is shown, where the budget is by one; empty for none.
func (c *Client) Budget(ctx context.Context, name, subject string) (api.Budget, error) {
	query := url.Values{}
	if subject != "" {
		query.Set("subject", subject)
	}
	var answer api.Budget
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "budgets", name}, query: query, answer: &answer, repeatable: true})
	return answer, err
}

// PutBudget makes a budget or replaces its settings, and opens a closed one. A repeat changes nothing.
func (c *Client) PutBudget(ctx context.Context, name string, budget api.BudgetRequest) (api.Budget, error) {
	var answer api.Budget
	err := c.do(ctx, call{method: http.MethodPut, path: []string{"v1", "budgets", name}, body: budget, answer: &answer, repeatable: true})
	return answer, err
}

// DeleteBudget deletes a budget and its usage: jobs that wait for it do not any more. The problem not_found may also mean that an
// answer was lost, and the call repeated.
func (c *Client) DeleteBudget(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "budgets", name}, repeatable: true})
}

// BudgetUsage gives what was used of a budget by day, from and to such as 2026-11-24; empty for this month and today.
func (c *Client) BudgetUsage(ctx context.Context, name, from, to string) (api.BudgetUsages, error) {
	query := url.Values{}
	if from != "" {
		query.Set("from", from)
	}
	if to != "" {
		query.Set("to", to)
	}
	var answer api.BudgetUsages
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"v1", "budgets", name, "usage"}, query: query, answer: &answer, repeatable: true})
	return answer, err
}
