package jobs

import "github.com/forgequeue/forgequeue/core/internal/store"

// heldSQL is the fence: the rows whose whole lease was named, in a cell that takes writes of their tenants. It is not a join, so that rows are
// visited, and locked, in the order of their ids and two statements never deadlock; `IS TRUE` keeps
// the planner from making it one. It does not say state = 'running': only running rows have a lease
// id, and the partial index on that state would tempt the planner away from the primary key (34
// times slower with statistics from before the first lease).
const heldSQL = `id = ANY(@ids::uuid[])
  AND ((id, tenant_id, epoch, lease_id) IN (
    SELECT * FROM unnest(@ids::uuid[], @tenants::uuid[], @epochs::bigint[], @leases::uuid[]))) IS TRUE
  AND ` + store.ServedTenantsSQL
