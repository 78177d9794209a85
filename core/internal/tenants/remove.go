package tenants

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// RemovalPlace is where a batch of a removal ended; the zero value is the beginning. Beside an old snapshot the entries of
// deleted rows stay in an index: from its beginning each batch would read those of all batches before.
type RemovalPlace struct {
	step int
	// after is the key of the last row of the step that was removed; nil for none.
	after []string
}

// removal is a step: it removes about a batch of a tenant's rows, from a key on and in the order of the key, and gives how
// many, and the key of the last one.
type removal struct {
	sql string
	// begin is before all keys.
	begin []string
}

// beforeAll has for each type a value before all others, as text.
var beforeAll = map[string]string{
	"text": "", "smallint": "-32768", "integer": "-2147483648", "bigint": "-9223372036854775808", "xid8": "0",
	"date": "-infinity", "timestamptz": "-infinity", "uuid": "00000000-0000-0000-0000-000000000000",
}

// fromKey is the condition that rows come from the key @after on, and order their order: that of an index whose first column
// says whose they are. A key is columns with their types.
func fromKey(key ...string) (condition, order, last string, begin []string) {
	var columns, places, down, texts []string
	for i, one := range key {
		column, kind, _ := strings.Cut(one, " ")
		texts = append(texts, column+"::text")
		place := fmt.Sprintf("(@after::text[])[%d]::%s", i+1, kind)
		if kind == "uuid" { // as its indexes have it
			column, place = "uuid_send("+column+")", "uuid_send("+place+")"
		}
		columns, places, down = append(columns, column), append(places, place), append(down, column+" DESC")
		begin = append(begin, beforeAll[kind])
	}
	order = strings.Join(columns, ", ")
	condition = "(" + order + ") >= (" + strings.Join(places, ", ") + ")"
	last = "SELECT ARRAY[" + strings.Join(texts, ", ") + "] FROM %s ORDER BY " + strings.Join(down, ", ") + " LIMIT 1"
	return condition, order, last, begin
}

// removeRows removes rows of a table by their place.
func removeRows(table, owner string, key ...string) removal {
	condition, order, last, begin := fromKey(key...)
	names := make([]string, len(key))
	for i, one := range key {
		names[i], _, _ = strings.Cut(one, " ")
	}
	return removal{`
WITH picked AS MATERIALIZED (
  SELECT ctid AS place, ` + strings.Join(names, ", ") + ` FROM ` + table + `
  WHERE ` + owner + ` = @tenant_id AND ` + condition + `
  ORDER BY ` + order + `
  LIMIT @batch
), gone AS (
  DELETE FROM ` + table + ` WHERE ctid = ANY(ARRAY(SELECT place FROM picked))
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS removed, (` + fmt.Sprintf(last, "picked") + `) AS last`, begin}
}

// removeEnded is a step whose statement, up to an ended with the ids of what it removes, is given; picked is the condition
// and the order by which it picks rows.
func removeEnded(statement func(picked string) string) removal {
	condition, order, last, begin := fromKey("id uuid")
	return removal{statement("tenant_id = @tenant_id AND "+condition+" ORDER BY "+order) + `
SELECT (SELECT count(*) FROM ended) AS removed, (` + fmt.Sprintf(last, "ended") + `) AS last`, begin}
}

// withJobsSQL removes the edges, the attempts and the output of the jobs that ended has.
const withJobsSQL = `edges AS (
  DELETE FROM dependencies WHERE child_id = ANY(ARRAY(SELECT id FROM ended))
), tried AS (
  DELETE FROM attempts WHERE job_id = ANY(ARRAY(SELECT id FROM ended)) AND tenant_id = @tenant_id
), said AS (
  DELETE FROM job_output WHERE job_id = ANY(ARRAY(SELECT id FROM ended)) AND tenant_id = @tenant_id
)`

// removals are the steps that remove a tenant's data, in the order in which they are done: one has nothing to do before the
// next begins.
var removals = []removal{
	removeRows("redrives", "tenant_id", "id uuid"),
	removeRows("schedules", "tenant_id", "name text"),
	// They leave the counts that they are in, as jobs that end. Rows are locked in the order of ids, as in
	// every statement.
	removeEnded(func(picked string) string {
		return `
WITH ended AS (
  DELETE FROM jobs
  WHERE id = ANY(ARRAY(SELECT id FROM jobs WHERE id = ANY(ARRAY(
    SELECT id FROM jobs WHERE ` + picked + ` LIMIT @batch)) ORDER BY id FOR UPDATE))
  RETURNING id, tenant_id, user_id, queue, type, counted
), ` + withJobsSQL + `, ` + caps.LeaveCountsSQL
	}),
	removeEnded(func(picked string) string {
		return `
WITH ended AS (
  DELETE FROM dead_letters
  WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE id = ANY(ARRAY(
    SELECT id FROM dead_letters WHERE ` + picked + ` LIMIT @batch)) ORDER BY id FOR UPDATE))
  RETURNING id
), ` + withJobsSQL
	}),
	removeEnded(func(picked string) string {
		return `
WITH picked AS MATERIALIZED (
  SELECT id, finished_at FROM finished_jobs WHERE ` + picked + ` LIMIT @batch
), ended AS (
  DELETE FROM finished_jobs USING picked WHERE finished_jobs.id = picked.id AND finished_jobs.finished_at = picked.finished_at
  RETURNING finished_jobs.id
), ` + withJobsSQL
	}),
	// A workflow has up to 1,000 jobs.
	removeEnded(func(picked string) string {
		return `
WITH ended AS (
  DELETE FROM workflows
  WHERE id = ANY(ARRAY(SELECT id FROM workflows WHERE ` + picked + ` LIMIT GREATEST(@batch / 100, 1)))
  RETURNING id
), jobs_of AS (
  DELETE FROM workflow_jobs WHERE workflow_id = ANY(ARRAY(SELECT id FROM ended))
)`
	}),
	removeRows("follow_ups", "tenant_id", "id bigint"),
	removeRows("job_signals", "tenant_id", "job_id uuid", "name text"),
	removeRows("job_waits", "tenant_id", "job_id uuid"),
	removeRows("key_checks", "tenant_id", "id bigint"),
	removeRows("key_rates", "tenant_id", "queue text", "key text"),
	removeRows("budget_line", "tenant_id", "job_id uuid", "budget text"),
	removeRows("budget_days", "tenant_id", "budget text", "day date"),
	removeRows("budget_settlements", "tenant_id", "id bigint"),
	removeRows("budget_log", "tenant_id", "budget text", "subject text", "seq bigint"),
	removeRows("budgets", "tenant_id", "name text"),
	removeRows("webhook_events", "tenant_id", "event_id bigint"),
	removeRows("alerts", "tenant_id", "webhook text", "state text", "name text"),
	removeRows("webhooks", "tenant_id", "name text"),
	removeRows("job_types", "tenant_id", "type text", "version integer"),
	removeRows("schedule_runs", "tenant_id", "name text", "at timestamptz"),
	removeRows("idempotency_keys", "tenant_id", "user_id text", "operation text", "key text"),
	removeRows("workers", "owner", "worker_id text"),
	removeRows("rate_log", "tenant_id", "queue text", "seq bigint"),
	removeRows("job_stats", "tenant_id", "queue text", "at timestamptz"),
	removeRows("limit_stats", "tenant_id", "name text", "at timestamptz"),
	removeRows("ledger", "tenant_id", "by text", "name text", "day date"),
	removeRows("ledger_entries", "tenant_id", "day date"),
	removeRows("lanes", "tenant_id", "queue text", "type text"),
	removeRows("queues", "tenant_id", "name text"),
	removeRows("usage_counts", "tenant_id", "counter smallint", "name text"),
	removeCounts(),
	removeRows("usage_credits", "tenant_id", "counter smallint", "name text", "xid xid8"),
}

// removeCounts removes counts with their credits: each is wrong without the other.
func removeCounts() removal {
	condition, order, last, begin := fromKey("counter smallint", "name text")
	return removal{`
WITH picked AS MATERIALIZED (
  SELECT DISTINCT counter, name FROM usage_log WHERE tenant_id = @tenant_id AND ` + condition + ` ORDER BY ` + order + ` LIMIT GREATEST(@batch / 100, 1)
), credits AS (
  DELETE FROM usage_credits AS c USING picked WHERE c.tenant_id = @tenant_id AND c.counter = picked.counter AND c.name = picked.name
), gone AS (
  DELETE FROM usage_log AS l USING picked WHERE l.tenant_id = @tenant_id AND l.counter = picked.counter AND l.name = picked.name
  RETURNING 1
)
SELECT (SELECT count(*) FROM gone) AS removed, (` + fmt.Sprintf(last, "picked") + `) AS last`, begin}
}

// removeSome does the steps from a place on until one of them has removed something, and gives where it ended. Rows may
// have come behind the place meanwhile: nothing is left only where all steps have found nothing from the beginning.
func removeSome(ctx context.Context, tx pgx.Tx, id tenant.ID, place RemovalPlace, batch int) (removed int, next RemovalPlace, err error) {
	for step := place.step; step < len(removals); step++ {
		after := removals[step].begin
		if step == place.step && place.after != nil {
			after = place.after
		}
		var last []string
		row := tx.QueryRow(ctx, removals[step].sql, store.Args{"tenant_id": id, "batch": batch, "after": after})
		if err := row.Scan(&removed, &last); err != nil || removed > 0 {
			return removed, RemovalPlace{step, last}, err
		}
	}
	if place.step == 0 && place.after == nil {
		return 0, place, nil
	}
	return removeSome(ctx, tx, id, RemovalPlace{}, batch)
}
