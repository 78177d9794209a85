package webhook

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// AppendSQL appends the events of jobs that a statement ends. Before it comes a CTE told, which has the kind
// of the event, and the columns of the job as it ended that are to be shown: those of its table, with state,
// reason and finished_at. @owners are the tenants of the jobs.
//
// Where none of the tenants has a webhook, told is not read.
const AppendSQL = `
INSERT INTO webhook_events (webhook, kind, workflow_id, finished_at, tenant_id, job)
SELECT hook.name, told.kind, NULL::uuid, told.finished_at, told.tenant_id, row_to_json(told)
FROM told CROSS JOIN LATERAL (
  SELECT name FROM webhooks
  WHERE webhooks.tenant_id = told.tenant_id AND deleted_at IS NULL AND told.kind = ANY(events)
    AND (webhooks.queue IS NULL OR webhooks.queue = told.queue)
    AND (webhooks.type IS NULL OR webhooks.type = told.type)
    AND (webhooks.tag IS NULL OR webhooks.tag = ANY(told.tags))
  OFFSET 0
) AS hook
WHERE ` + anyHookSQL + ` AND left(told.queue, 1) <> '_'
UNION ALL
-- of the workflow of a job it is asked later whether it has ended
SELECT NULL, 'workflow.ended', workflow_jobs.workflow_id, told.finished_at, told.tenant_id, NULL
FROM told JOIN workflow_jobs ON workflow_jobs.job_id = told.id
WHERE ` + anyHookSQL + ` AND EXISTS (
  SELECT 1 FROM webhooks
  WHERE webhooks.tenant_id = told.tenant_id AND deleted_at IS NULL AND 'workflow.ended' = ANY(events))`

// anyHookSQL is evaluated once in a statement.
const anyHookSQL = `(SELECT EXISTS (SELECT 1 FROM webhooks WHERE tenant_id = ANY(@owners::uuid[])))`

// Hooks has the statements.
type Hooks struct {
	*store.Store
	appended atomic.Pointer[func()]
}

// New makes them.
func New(s *store.Store) *Hooks { return &Hooks{Store: s} }

// OnEvent sets what is called after each commit that has appended events. It must not block.
func (h *Hooks) OnEvent(call func()) { h.appended.Store(&call) }

// EventsAppended says that a commit has appended events, or may have.
func (h *Hooks) EventsAppended() {
	if call := h.appended.Load(); call != nil {
		(*call)()
	}
}

// eventTenantsSQL jumps from tenant to tenant by the index, as dependency.WaitingTenants does.
const eventTenantsSQL = `
WITH RECURSIVE tenants AS (
  (SELECT tenant_id FROM webhook_events ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT next.tenant_id
  FROM tenants CROSS JOIN LATERAL (
    SELECT tenant_id FROM webhook_events WHERE tenant_id > tenants.tenant_id ORDER BY tenant_id LIMIT 1) AS next
)
SELECT tenant_id, statement_timestamp() - (SELECT finished_at FROM webhook_events AS e WHERE e.tenant_id = tenants.tenant_id ORDER BY event_id LIMIT 1) AS age
FROM tenants`

// EventTenant is a tenant that has events, and how long ago the first of them happened.
type EventTenant struct {
	TenantID tenant.ID
	Age      *time.Duration
}

// EventTenants lists the tenants that have events without a delivery.
func (h *Hooks) EventTenants(ctx context.Context) ([]EventTenant, error) {
	tenants, err := store.Query(ctx, h.Store, pgx.RowToStructByName[EventTenant], eventTenantsSQL, store.Args{})
	if err != nil {
		return nil, fmt.Errorf("webhook: tenants with events: %w", store.NothingChanged(err))
	}
	return tenants, nil
}
