//go:build !mutant_reaper_id

package queue

// expiredSQL locks leases that have run out, oldest first. Rows that somebody
// else holds, a finish under way or another core's reaper, are left to them.
//
// Holders speak first: see heardSQL.
const expiredSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE state = 'running' AND lease_expires_at < statement_timestamp() AND lease_expires_at >= statement_timestamp() - @reach::interval
  -- where the batch before ended: its dead entries are not walked again, which an old
  -- snapshot would keep in the index (100,000 leases: 63 s without this, 20 s with it)
  AND (lease_expires_at, id) > (@after::timestamptz, @after_id::uuid)
  AND ` + heardSQL + `
ORDER BY lease_expires_at, id
LIMIT @batch
FOR UPDATE SKIP LOCKED`
