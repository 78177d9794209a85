package queue

// heldSQL is the fence: the rows whose whole lease was named. Not a join, so that
// rows are visited, and locked, in the order of their ids and two statements
// never wait for each other in a circle; `IS TRUE` keeps the planner from making
// it one. It does not say state = 'running': a lease id is on no other row, and
// the partial index on that state would tempt the planner away from the primary
// key (34 times slower with statistics from before the first lease).
const heldSQL = `id = ANY(@ids::uuid[])
  AND ((id, tenant_id, epoch, lease_id) IN (
    SELECT * FROM unnest(@ids::uuid[], @tenants::uuid[], @epochs::bigint[], @leases::uuid[]))) IS TRUE`

// namedSQL finds what a call says of a row that it held. By the lease too: a call
// may name one job twice, with a lease that holds and one that does not.
const namedSQL = `USING (id, lease_id)`
