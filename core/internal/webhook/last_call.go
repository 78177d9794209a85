package webhook

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// LastCall is how the last call of a webhook ended, in one core.
type LastCall struct {
	Tenant tenant.ID
	Name   string
	// Ago is how long ago that was.
	Ago time.Duration
	// Status is nil where there was no answer: Error then says why.
	Status *int
	Error  *string
}

// The last call of any core stands. Rows are locked in the order of their key.
const lastCallsSQL = `
UPDATE webhooks SET last_at = call.at, last_status = call.status, last_error = call.error
FROM (
  SELECT w.tenant_id, w.name, statement_timestamp() - c.ago AS at, c.status, c.error
  FROM unnest(@tenants::uuid[], @names::text[], @agos::interval[], @statuses::integer[], @errors::text[]) AS c(tenant_id, name, ago, status, error)
  JOIN webhooks AS w ON w.tenant_id = c.tenant_id AND w.name = c.name
  WHERE w.tenant_id <> ALL(` + store.MovingSQL + `)
  ORDER BY w.tenant_id, w.name
  FOR NO KEY UPDATE OF w
) AS call
WHERE webhooks.tenant_id = call.tenant_id AND webhooks.name = call.name AND (webhooks.last_at IS NULL OR webhooks.last_at < call.at)`

// RecordLastCalls stores how the last calls of webhooks, of any tenants, ended.
func (h *Hooks) RecordLastCalls(ctx context.Context, calls []LastCall) error {
	n := len(calls)
	tenants, names, agos := make([]uuid.UUID, n), make([]string, n), make([]time.Duration, n)
	statuses, failures := make([]*int, n), make([]*string, n)
	for i, c := range calls {
		tenants[i], names[i], agos[i], statuses[i], failures[i] = c.Tenant, c.Name, c.Ago, c.Status, c.Error
	}
	err := store.Exec(store.WithClass(ctx, store.ClassLists), h.Store, lastCallsSQL, store.Args{
		"tenants": tenants, "names": names, "agos": agos, "statuses": statuses, "errors": failures,
	})
	if err != nil {
		return fmt.Errorf("webhook: last calls: %w", err)
	}
	return nil
}
