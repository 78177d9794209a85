package move

import (
	"fmt"
	"strings"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// How a table's rows get to the target.
type way int

const (
	// behindFence: with all others of its kind, in the transaction that makes the target serve.
	behindFence way = iota
	// ofLiveJobs: likewise, the rows of live jobs. Those of ended ones are history.
	ofLiveJobs
	// history: page by page before the fence, then what has changed.
	history
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
	// noted is the column whose values are noted when a row of history changes: an id of a job or a workflow.
	noted string
	// rules are what its fence does, the beginning of the trigger's body; "" refuses all.
	rules string
	// open: it has no fence.
	open bool
}

const (
	skipAll     = `RETURN NULL;`
	allowDelete = `IF TG_OP = 'DELETE' THEN RETURN OLD; END IF;`
	skipDelete  = `IF TG_OP = 'DELETE' THEN RETURN NULL; END IF;`
	// jobRules leave out what claims, promotions, follow-ups, the moving of misrouted jobs, the reaper and deadlines
	// do. A job under the installation's own cap is refused instead: its count is of all tenants.
	jobRules = `
    IF TG_OP = 'UPDATE' THEN
      IF (OLD.counted | NEW.counted) & ` + caps.RunningAllSQL + ` = 0 AND (
           OLD.state <> 'running' AND (NEW.state <> OLD.state OR NEW.lane_id <> OLD.lane_id OR NEW.counted <> OLD.counted)
        OR OLD.state = 'running' AND NEW.state <> 'running' AND OLD.lease_expires_at <= clock_timestamp()) THEN
        RETURN NULL;
      END IF;
    ELSIF TG_OP = 'DELETE' THEN
      IF OLD.counted & ` + caps.RunningAllSQL + ` = 0 AND (OLD.deadline <= clock_timestamp() OR OLD.state = 'running' AND OLD.lease_expires_at <= clock_timestamp()) THEN
        RETURN NULL;
      END IF;
    END IF;`
	// A worker that is silent becomes STALE, then DEAD, then goes; its own heartbeats are refused.
	workerRules = `
    IF TG_OP = 'DELETE' THEN
      RETURN NULL;
    ELSIF TG_OP = 'UPDATE' THEN
      IF NEW.status <> OLD.status THEN
        RETURN NULL;
      END IF;
    END IF;`
	// Lanes are retired and deleted by a duty, and revived by a submit.
	laneRules = `
    IF TG_OP = 'DELETE' THEN
      RETURN NULL;
    ELSIF TG_OP = 'UPDATE' THEN
      IF NEW.retired_at IS NOT NULL OR OLD.retired_at IS NULL THEN
        RETURN NULL;
      END IF;
    END IF;`
)

// tables are all that have rows of tenants, in the order in which they are copied and locked: a test compares
// them with the schema. Partitions are not named.
func tables() []table {
	return []table{
		{name: "jobs", owner: "tenant_id", way: behindFence, rules: jobRules},
		{name: "attempts", owner: "tenant_id", way: ofLiveJobs, by: "job_id", noted: "job_id", rules: skipAll},
		{name: "dependencies", owner: "tenant_id", way: ofLiveJobs, by: "child_id", noted: "child_id"},
		{name: "finished_jobs", owner: "tenant_id", way: history, noted: "id"},
		{name: "dead_letters", owner: "tenant_id", way: history, noted: "id"},
		{name: "workflows", owner: "tenant_id", way: history, noted: "id"},
		{name: "workflow_jobs", way: history, parent: "workflows", by: "workflow_id", noted: "workflow_id"},
		{name: "audit_log", owner: "tenant_id", way: afterwards, open: true},
		{name: "idempotency_keys", owner: "tenant_id", rules: allowDelete},
		{name: "queues", owner: "tenant_id", rules: skipDelete},
		{name: "workers", owner: "owner", rules: workerRules},
		{name: "schedules", owner: "tenant_id"},
		{name: "schedule_runs", owner: "tenant_id", rules: allowDelete},
		{name: "redrives", owner: "tenant_id"},
		{name: "redrive_samples", parent: "redrives", by: "redrive_id"},
		{name: "follow_ups", owner: "tenant_id"},
		{name: "webhooks", owner: "tenant_id"},
		{name: "webhook_events", owner: "tenant_id"},
		{name: "job_types", owner: "tenant_id"},
		{name: "rate_log", owner: "tenant_id", rules: allowDelete + skipAll},
		{name: "job_stats", owner: "tenant_id", rules: allowDelete + skipAll},
		{name: "limit_stats", owner: "tenant_id", rules: allowDelete + skipAll},
		{name: "ledger", owner: "tenant_id", open: true},
		{name: "ledger_entries", owner: "tenant_id", rules: allowDelete},
		{name: "usage_counts", owner: "tenant_id", rules: allowDelete + skipAll},
		{name: "usage_log", owner: "tenant_id", way: counted, rules: allowDelete + skipAll},
		{name: "usage_credits", owner: "tenant_id", way: counted, rules: allowDelete + skipAll},
		{name: "lanes", owner: "tenant_id", way: laneIDs, rules: laneRules},
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

// kind is what the noted ids are of.
func (t *table) kind() string {
	if strings.HasPrefix(t.name, "workflow") {
		return kindWorkflow
	}
	return kindJob
}

const (
	kindJob      = "job"
	kindWorkflow = "workflow"
)
