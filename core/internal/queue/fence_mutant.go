//go:build mutant_fence

package queue

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// A finish and a heartbeat name only the job.
const (
	heldSQL = `id = ANY(@ids::uuid[])
  AND ((id, tenant_id) IN (
    SELECT id, tenant_id FROM unnest(@ids::uuid[], @tenants::uuid[], @epochs::bigint[], @leases::uuid[])
      AS named(id, tenant_id, epoch, lease_id))) IS TRUE`
	namedSQL = `USING (id)`
)
