package store

import (
	"context"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const waitingTenantsSQL = `
WITH RECURSIVE tenants AS (
  (SELECT tenant_id FROM waiting ORDER BY tenant_id LIMIT 1)
  UNION ALL
  SELECT next.tenant_id
  FROM tenants CROSS JOIN LATERAL (
    SELECT tenant_id FROM waiting WHERE tenant_id > tenants.tenant_id ORDER BY tenant_id LIMIT 1) AS next
)
SELECT tenant_id FROM tenants
WHERE tenant_id <> ALL(` + MovingNowSQL + `)`

// WaitingTenants lists the tenants that have rows in a table of work that waits, but for those that are being moved. It jumps from
// tenant to tenant by the table's index, which begins with tenant_id.
func WaitingTenants(ctx context.Context, s *Store, table string) ([]uuid.UUID, error) {
	tenants, err := Query(ctx, s, pgx.RowTo[uuid.UUID], strings.ReplaceAll(waitingTenantsSQL, "waiting", table), Args{})
	return tenants, NotApplied(err)
}
