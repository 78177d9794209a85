package budget

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// subjectSQL is Definition.Subject of a budget b and a job with user_id and key.
const subjectSQL = `CASE b.by WHEN 'user' THEN COALESCE(user_id, '') WHEN 'key' THEN COALESCE(key, '') ELSE '' END`

// SettleEndedSQL are expressions of a statement that settle the jobs in ended, with started_at and costs; the array uses has what
// was reported of each, by place in input. What was not reported was used as it was reserved.
const SettleEndedSQL = `settled AS (
  INSERT INTO budget_settlements (tenant_id, budget, subject, at, started_at, reserved, used)
  SELECT b.tenant_id, b.name, ` + subjectSQL + `, statement_timestamp(), started_at, COALESCE(amount.reserved, 0), COALESCE(amount.used, amount.reserved)
  FROM ended CROSS JOIN LATERAL (SELECT width_bucket(ended.id, @ids::uuid[]) AS place OFFSET 0) AS input
  CROSS JOIN LATERAL (
    SELECT COALESCE(cost.key, used.key) AS budget, cost.value::bigint AS reserved, used.value::bigint AS used
    FROM jsonb_each_text(COALESCE(costs, '{}')) AS cost FULL JOIN jsonb_each_text(COALESCE((@uses::text[])[place]::jsonb, '{}')) AS used ON used.key = cost.key
  ) AS amount
  JOIN budgets AS b ON b.tenant_id = ended.tenant_id AND b.name = amount.budget
  RETURNING tenant_id, budget, subject
), reviewed AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, '', array_agg(DISTINCT budget || '` + checkSeparator + `' || subject) FROM settled GROUP BY tenant_id
)`

// Settlement is what an attempt that ends has used of a budget.
type Settlement struct {
	Tenant    tenant.ID
	Budget    string
	User, Key *string
	// Start is the attempt's; nil for a job that leaves before its attempt.
	Start          *time.Time
	Reserved, Used int64
}

// Settlements are those of an attempt with these costs. What was not reported was used as it was reserved, but nothing of it where
// free is given, or the budget refused the attempt.
func Settlements(owner tenant.ID, user, key *string, start *time.Time, costs, used api.Amounts, free bool, throttle map[string]api.Throttle) []Settlement {
	if len(costs) == 0 && len(used) == 0 {
		return nil
	}
	amounts := maps.Clone(used)
	if amounts == nil {
		amounts = api.Amounts{}
	}
	for name, reserved := range costs {
		if _, reported := amounts[name]; reported {
			continue
		}
		if _, refused := throttle[name]; refused || free {
			reserved = 0
		}
		amounts[name] = reserved
	}
	made := make([]Settlement, 0, len(amounts))
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		made = append(made, Settlement{Tenant: owner, Budget: name, User: user, Key: key, Start: start, Reserved: costs[name], Used: amounts[name]})
	}
	return made
}

const settleSQL = `
WITH known AS (
  SELECT b.tenant_id, b.name AS budget, ` + subjectSQL + ` AS subject, s.started_at, s.reserved, s.used
  FROM unnest(@tenants::uuid[], @budgets::text[], @users::text[], @keys::text[], @starts::timestamptz[], @reserves::bigint[], @uses::bigint[])
    AS s(tenant_id, budget, user_id, key, started_at, reserved, used)
  JOIN budgets AS b ON b.tenant_id = s.tenant_id AND b.name = s.budget
), settled AS (
  INSERT INTO budget_settlements (tenant_id, budget, subject, at, started_at, reserved, used)
  SELECT tenant_id, budget, subject, statement_timestamp(), started_at, reserved, used FROM known WHERE started_at IS NOT NULL
)
INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, '', array_agg(DISTINCT budget || '` + checkSeparator + `' || subject) FROM known GROUP BY tenant_id`

// Settle appends settlements, with the batch, and checks of what waits for their budgets. One without a start only has the check.
func Settle(batch *pgx.Batch, all []Settlement) {
	if len(all) == 0 {
		return
	}
	n := len(all)
	tenants, budgets, users, keys := make([]uuid.UUID, n), make([]string, n), make([]*string, n), make([]*string, n)
	starts, reserves, uses := make([]*time.Time, n), make([]int64, n), make([]int64, n)
	for i, one := range all {
		tenants[i], budgets[i], users[i], keys[i] = one.Tenant, one.Budget, one.User, one.Key
		starts[i], reserves[i], uses[i] = one.Start, one.Reserved, one.Used
	}
	batch.Queue(settleSQL, store.Args{"tenants": tenants, "budgets": budgets, "users": users, "keys": keys, "starts": starts, "reserves": reserves, "uses": uses})
}

// A budget that is closed for longer stays so. The order of the rows is one for all transactions.
const closeSQL = `
WITH longer AS (
  SELECT b.tenant_id, b.name, b.unit, c.until, b.closed_until IS NULL OR b.closed_until <= statement_timestamp() AS opened FROM budgets AS b
  JOIN (SELECT tenant_id, name, max(statement_timestamp() + ms * interval '1 millisecond') AS until
        FROM unnest(@tenants::uuid[], @names::text[], @delays::bigint[]) AS c(tenant_id, name, ms) GROUP BY tenant_id, name) AS c
    ON c.tenant_id = b.tenant_id AND c.name = b.name
  WHERE b.closed_until IS NULL OR b.closed_until < c.until
  ORDER BY b.tenant_id, b.name FOR UPDATE OF b
), told AS (
  INSERT INTO webhook_events (tenant_id, webhook, kind, finished_at, job)
  SELECT longer.tenant_id, hook.name, 'budget.closed', statement_timestamp(), json_build_object('name', longer.name, 'unit', longer.unit, 'closed_until', longer.until)
  FROM longer JOIN webhooks AS hook ON hook.tenant_id = longer.tenant_id
  WHERE longer.opened AND hook.deleted_at IS NULL AND 'budget.closed' = ANY(hook.events)
)
UPDATE budgets SET closed_until = longer.until FROM longer WHERE budgets.tenant_id = longer.tenant_id AND budgets.name = longer.name`

// Closing closes a budget for a time.
type Closing struct {
	Tenant tenant.ID
	Name   string
	For    time.Duration
}

// Close closes budgets, with the batch, and appends the events of webhooks.
func Close(batch *pgx.Batch, all []Closing) {
	if len(all) == 0 {
		return
	}
	tenants, names, delays := make([]uuid.UUID, len(all)), make([]string, len(all)), make([]int64, len(all))
	for i, one := range all {
		tenants[i], names[i], delays[i] = one.Tenant, one.Name, one.For.Milliseconds()
	}
	batch.Queue(closeSQL, store.Args{"tenants": tenants, "names": names, "delays": delays})
}
