package budget

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

const definitionColumns = `name, unit, amount, per_ms, "window", timezone, burst, by, closed_until, created_at, updated_at`

// DefinitionsSQL reads the budgets of some tenants.
const DefinitionsSQL = `
SELECT tenant_id, ` + definitionColumns + ` FROM budgets WHERE tenant_id = ANY(@tenants::uuid[])`

// Definitions are budgets of tenants, by their names.
type Definitions map[tenant.ID]map[string]*Definition

// Scan reads the rows of DefinitionsSQL.
func (d Definitions) Scan(rows pgx.Rows) error {
	type row struct {
		TenantID tenant.ID
		Definition
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[row])
	for _, one := range found {
		if d[one.TenantID] == nil {
			d[one.TenantID] = map[string]*Definition{}
		}
		d[one.TenantID][one.Name] = &one.Definition
	}
	return err
}

// Ref is the account that a job uses of a budget; false where there is no such budget.
func (d Definitions) Ref(owner tenant.ID, name string, user, key *string) (Ref, bool) {
	definition := d[owner][name]
	if definition == nil {
		return Ref{}, false
	}
	return Ref{Tenant: owner, Name: name, Subject: definition.Subject(user, key)}, true
}

// Refs are the accounts of a job's costs, with the amounts.
func (d Definitions) Refs(owner tenant.ID, costs api.Amounts, user, key *string) map[Ref]int64 {
	refs := make(map[Ref]int64, len(costs))
	for name, amount := range costs {
		if ref, ok := d.Ref(owner, name, user, key); ok {
			refs[ref] = amount
		}
	}
	return refs
}

// Refuse says what is wrong with costs; nil for nothing.
func (d Definitions) Refuse(owner tenant.ID, costs api.Amounts) *problem.Problem {
	var unknown, above []problem.FieldError
	for _, name := range slices.Sorted(maps.Keys(costs)) {
		known := d[owner][name]
		switch {
		case known == nil:
			unknown = append(unknown, problem.FieldError{Field: "costs." + name, Message: "there is no such budget; PUT /v1/budgets/" + name + " makes one"})
		case costs[name] > known.Holds():
			above = append(above, problem.FieldError{
				Field: "costs." + name, Message: fmt.Sprintf("is above the %d %s that the budget holds at most", known.Holds(), known.Unit),
			})
		}
	}
	if len(unknown) > 0 {
		return problem.Invalid(unknown...)
	}
	if len(above) == 0 {
		return nil
	}
	p := problem.New(problem.CostAboveBudget, "The job could never start: it may cost more than its budget ever holds.")
	p.Errors = above
	return p
}

// Definitions reads the budgets of tenants.
func (b *Budgets) Definitions(ctx context.Context, owners ...tenant.ID) (Definitions, error) {
	made := Definitions{}
	conn, err := b.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	rows, err := conn.Query(ctx, DefinitionsSQL, store.Args{"tenants": owners})
	if err == nil {
		err = made.Scan(rows)
	}
	if err != nil {
		return nil, fmt.Errorf("budget: definitions: %w", store.NotApplied(store.Classify(err)))
	}
	return made, nil
}

// pageSQL also sums up what all subjects of a budget have reserved.
const pageSQL = `
SELECT ` + definitionColumns + `, label,
  (SELECT count(*) FROM (SELECT FROM budget_line AS l WHERE l.tenant_id = b.tenant_id AND l.budget = b.name AND l.passed_at IS NULL LIMIT @counted) AS c) AS waiting,
  GREATEST((SELECT COALESCE(sum(running), 0) FROM (
     SELECT DISTINCT ON (subject) running FROM budget_log AS l WHERE l.tenant_id = b.tenant_id AND l.budget = b.name ORDER BY subject, seq DESC) AS newest)
   - (SELECT COALESCE(sum(reserved), 0) FROM budget_settlements AS s WHERE s.tenant_id = b.tenant_id AND s.budget = b.name), 0)::bigint AS reserved
FROM budgets AS b
WHERE tenant_id = @tenant_id AND (@only = '' AND name > @after OR name = @only)
ORDER BY name
LIMIT @most`

type pageRow struct {
	Definition
	Label             *string
	Waiting, Reserved int64
}

// List lists budgets by name, after one of them.
func (b *Budgets) List(ctx context.Context, owner tenant.ID, after string, most int) ([]api.Budget, error) {
	found, err := b.page(ctx, owner, "", after, nil, most)
	if err != nil {
		return nil, fmt.Errorf("budget: list: %w", err)
	}
	return found, nil
}

// Get reads a budget, with what the subject has available where one is given. ErrNotFound where there is none.
func (b *Budgets) Get(ctx context.Context, owner tenant.ID, name string, subject *string) (api.Budget, error) {
	found, err := b.page(ctx, owner, name, "", subject, 1)
	if err == nil && len(found) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return api.Budget{}, fmt.Errorf("budget: get: %w", err)
	}
	return found[0], nil
}

func (b *Budgets) page(ctx context.Context, owner tenant.ID, only, after string, subject *string, most int) ([]api.Budget, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, b.Store, pgx.RowToAddrOfStructByName[pageRow], pageSQL, store.Args{
		"tenant_id": owner, "only": only, "after": after, "most": most, "counted": api.MaxDepthCount,
	})
	if err != nil {
		return nil, store.NotApplied(err)
	}
	var refs []Ref
	for _, row := range rows {
		ref := Ref{Tenant: owner, Name: row.Name}
		if row.By != "" {
			ref.Subject = store.OrElse(subject, "")
		}
		refs = append(refs, ref)
	}
	accounts, err := b.load(ctx, refs)
	if err != nil {
		return nil, err
	}
	made := make([]api.Budget, len(rows))
	for i, row := range rows {
		made[i] = row.wire()
		made[i].Waiting, made[i].Reserved, made[i].Label = row.Waiting, row.Reserved, row.Label
		account := accounts[refs[i]]
		if account == nil { // deleted meanwhile
			continue
		}
		if account.Closed() {
			made[i].ClosedUntil = api.AtOrNil(account.ClosedUntil)
		}
		if row.By == "" || subject != nil {
			made[i].Available = new(account.Available())
		}
	}
	return made, nil
}

func (b *Budgets) load(ctx context.Context, refs []Ref) (Accounts, error) {
	conn, err := b.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Release()
	accounts, err := Load(ctx, conn, refs)
	if err != nil {
		return nil, store.NotApplied(store.Classify(err))
	}
	return accounts, nil
}

// usageSQL sums up: a settlement is a row of its own, or in the newest row of its subject, which are changed together.
const usageSQL = `
SELECT day, sum(reserved)::bigint AS reserved, sum(used)::bigint AS used, sum(overdrawn)::bigint AS overdrawn FROM (
  SELECT day, reserved, used, overdrawn FROM budget_days WHERE tenant_id = @tenant_id AND budget = @name
  UNION ALL
  SELECT day, reserved, used, overdrawn FROM (
    SELECT DISTINCT ON (subject) day, reserved, used, overdrawn FROM budget_log WHERE tenant_id = @tenant_id AND budget = @name ORDER BY subject, seq DESC) AS newest
  UNION ALL
  SELECT (started_at AT TIME ZONE 'UTC')::date, 0, used, GREATEST(used - reserved, 0) FROM budget_settlements WHERE tenant_id = @tenant_id AND budget = @name
) AS all_of_them
WHERE day BETWEEN @from::date AND @to::date
GROUP BY day
HAVING sum(reserved) > 0 OR sum(used) > 0
ORDER BY day`

const unitSQL = `
SELECT unit FROM budgets WHERE tenant_id = @tenant_id AND name = @name`

// Usage sums up what was used of a budget, by day. ErrNotFound where there is none.
func (b *Budgets) Usage(ctx context.Context, owner tenant.ID, name, from, to string) (api.BudgetUsages, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	units, err := store.Query(ctx, b.Store, pgx.RowTo[string], unitSQL, store.Args{"tenant_id": owner, "name": name})
	if err == nil && len(units) == 0 {
		err = store.ErrNotFound
	}
	if err != nil {
		return api.BudgetUsages{}, fmt.Errorf("budget: usage: %w", store.NotApplied(err))
	}
	days, err := store.Query(ctx, b.Store, func(row pgx.CollectableRow) (found api.BudgetUsage, err error) {
		var day time.Time
		err = row.Scan(&day, &found.Reserved, &found.Used, &found.Overdrawn)
		found.Day = day.Format(time.DateOnly)
		return found, err
	}, usageSQL, store.Args{"tenant_id": owner, "name": name, "from": from, "to": to})
	if err != nil {
		return api.BudgetUsages{}, fmt.Errorf("budget: usage: %w", store.NotApplied(err))
	}
	return api.BudgetUsages{Budget: name, Unit: units[0], Days: store.EmptyIfNil(days)}, nil
}
