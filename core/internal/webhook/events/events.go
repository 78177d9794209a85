// Package events is what the statements that end jobs append for webhooks. It is not in package webhook, whose
// deliveries are submitted as jobs: submits import package jobs, which appends events.
package events

import "sync/atomic"

// AppendSQL appends the events of jobs that a statement ends. Before it comes a CTE told, which has the kind
// of the event, and the columns of the job as it ended that are to be shown: those of its table, with state,
// reason and finished_at. @owners are the tenants of the jobs.
//
// Where none of the tenants has a webhook, told is not read.
const AppendSQL = AppendLiveSQL + `
UNION ALL
-- of the workflow of a job it is asked later whether it has ended
SELECT NULL, 'workflow.ended', workflow_jobs.workflow_id, told.finished_at, told.tenant_id, NULL
FROM told JOIN workflow_jobs ON workflow_jobs.job_id = told.id
WHERE ` + anyHookSQL + ` AND EXISTS (
  SELECT 1 FROM webhooks
  WHERE webhooks.tenant_id = told.tenant_id AND deleted_at IS NULL AND 'workflow.ended' = ANY(events))`

// AppendLiveSQL is AppendSQL for jobs that have not ended. finished_at is then the time of the event.
const AppendLiveSQL = `
INSERT INTO webhook_events (webhook, kind, workflow_id, finished_at, tenant_id, job)
SELECT hook.name, told.kind, NULL::uuid, told.finished_at, told.tenant_id, row_to_json(told)
FROM told CROSS JOIN LATERAL (
  SELECT name FROM webhooks
  WHERE webhooks.tenant_id = told.tenant_id AND deleted_at IS NULL AND told.kind = ANY(events)
    AND (webhooks.queue IS NULL OR webhooks.queue = told.queue)
    AND (webhooks.type IS NULL OR webhooks.type = told.type)
    AND (webhooks.tag IS NULL OR webhooks.tag = ANY(told.tags))
) AS hook
WHERE ` + anyHookSQL + ` AND left(told.queue, 1) <> '_'`

// anyHookSQL is evaluated once in a statement.
const anyHookSQL = `(SELECT EXISTS (SELECT 1 FROM webhooks WHERE tenant_id = ANY(@owners::uuid[])))`

// Events calls a function after events were appended.
type Events struct{ appended atomic.Pointer[func()] }

// OnAppended sets what is called after each commit that has appended events. It must not block.
func (e *Events) OnAppended(call func()) { e.appended.Store(&call) }

// Appended says that a commit has appended events, or may have.
func (e *Events) Appended() {
	if call := e.appended.Load(); call != nil {
		(*call)()
	}
}
