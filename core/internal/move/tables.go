package move

import (
	"fmt"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// How a table's rows get to the target.
type way int

const (
	// withSnapshot: all of them, in the transaction that makes the target serve.
	withSnapshot way = iota
	// withJobs: with the jobs that they are of.
	withJobs
	// byDay: days that are over before, the rest in that transaction.
	byDay
	// laneIDs: created in the target, since ids of lanes belong to a cell.
	laneIDs
	// counted: counts are made from the jobs that were copied.
	counted
	// afterwards: when the target serves already.
	afterwards
)

// table is a table with rows of tenants.
type table struct {
	name string
	way  way
	// owner is the column that says whose a row is; "" where the row that parent names says it.
	owner string
	// parent is the table of that row, by its id, which is in the column by.
	parent, by string
}

// tables are all that have rows of tenants, in the order in which they are copied: a test compares them with the schema.
// Partitions are not named.
func tables() []table {
	return []table{
		{name: "jobs", owner: "tenant_id"},
		{name: "attempts", owner: "tenant_id", way: withJobs, by: "job_id"},
		{name: "job_output", owner: "tenant_id", way: withJobs, by: "job_id"},
		{name: "dependencies", owner: "tenant_id", way: withJobs, by: "child_id"},
		{name: "finished_jobs", owner: "tenant_id", way: byDay},
		{name: "dead_letters", owner: "tenant_id"},
		{name: "workflows", owner: "tenant_id"},
		{name: "workflow_jobs", parent: "workflows", by: "workflow_id"},
		{name: "audit_log", owner: "tenant_id", way: afterwards},
		{name: "idempotency_keys", owner: "tenant_id"},
		{name: "queues", owner: "tenant_id"},
		{name: "workers", owner: "owner"},
		{name: "schedules", owner: "tenant_id"},
		{name: "schedule_runs", owner: "tenant_id"},
		{name: "redrives", owner: "tenant_id"},
		{name: "redrive_samples", parent: "redrives", by: "redrive_id"},
		{name: "follow_ups", owner: "tenant_id"},
		{name: "job_signals", owner: "tenant_id"},
		{name: "job_waits", owner: "tenant_id"},
		{name: "key_checks", owner: "tenant_id"},
		{name: "key_rates", owner: "tenant_id"},
		{name: "budgets", owner: "tenant_id"},
		{name: "budget_log", owner: "tenant_id"},
		{name: "budget_settlements", owner: "tenant_id"},
		{name: "budget_days", owner: "tenant_id"},
		{name: "budget_line", owner: "tenant_id"},
		{name: "webhooks", owner: "tenant_id"},
		{name: "alerts", owner: "tenant_id"},
		{name: "webhook_events", owner: "tenant_id"},
		{name: "job_types", owner: "tenant_id"},
		{name: "rate_log", owner: "tenant_id"},
		{name: "job_stats", owner: "tenant_id"},
		{name: "limit_stats", owner: "tenant_id"},
		{name: "ledger", owner: "tenant_id"},
		{name: "ledger_entries", owner: "tenant_id"},
		{name: "usage_counts", owner: "tenant_id"},
		{name: "usage_log", owner: "tenant_id", way: counted},
		{name: "usage_credits", owner: "tenant_id", way: counted},
		{name: "lanes", owner: "tenant_id", way: laneIDs},
	}
}

// ofWay lists tables.
func ofWay(which way) []table {
	var some []table
	for _, one := range tables() {
		if one.way == which {
			some = append(some, one)
		}
	}
	return some
}

// quoted is a tenant's id in a statement that takes no parameters.
func quoted(owner tenant.ID) string { return "'" + owner.String() + "'::uuid" }

// condition selects a tenant's rows; alias is the table's name in the statement.
func (t *table) condition(alias string, owner tenant.ID) string {
	if t.parent != "" {
		return fmt.Sprintf("%s.%s IN (SELECT id FROM %s WHERE tenant_id = %s)", alias, t.by, t.parent, quoted(owner))
	}
	return fmt.Sprintf("%s.%s = %s", alias, t.owner, quoted(owner))
}
