package claim

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// pickSQL locks jobs that may be leased: the shares in order, in each its lists in order, within a
// list by ready_at.
//
// A list is one probe of the ready index, from its cursor: entries of claimed jobs before it, which
// an old snapshot keeps in the index, are not scanned again. The LIMIT of a share is outside its
// lists: with one for each list, two lists could take more than the share. The LIMITs stop the scan
// as soon as enough jobs are found: all locked rows are taken, except those above the limit of
// bytes. A list must not be named twice: SKIP LOCKED does not skip rows that the statement itself
// has locked.
const pickSQL = pickHead + `
    SELECT j.id, j.ready_at, j.user_id, j.size` + pickTail

// pickBudgetedSQL also gives what the jobs may use of budgets. Claims of other lanes do not pay for it.
const pickBudgetedSQL = pickHead + `
    SELECT j.id, j.ready_at, j.user_id, j.size, j.tenant_id, j.queue, j.key, j.costs` + pickTail

const (
	pickHead = `
SELECT picked.*
FROM unnest(@share_firsts::integer[], @share_lasts::integer[], @share_mosts::bigint[]) AS share(first, last, most)
CROSS JOIN LATERAL (
  SELECT list.lane_id, list.priority, found.*
  FROM unnest((@list_lanes::bigint[])[share.first:share.last], (@list_priorities::smallint[])[share.first:share.last],
              (@list_ats::timestamptz[])[share.first:share.last], (@list_ids::uuid[])[share.first:share.last])
       AS list(lane_id, priority, at, id)
  CROSS JOIN LATERAL (`
	pickTail = `
    FROM jobs j
    WHERE j.state = 'queued' AND j.lane_id = list.lane_id AND j.priority = list.priority
      AND (j.ready_at, j.id) > (list.at, list.id)
      -- past its deadline: the next sweep makes it a dead letter
      AND (j.deadline IS NULL OR j.deadline > statement_timestamp())
      AND (j.user_id IS NULL OR j.user_id <> ALL(@without::text[]))
      AND j.tenant_id <> ALL(` + store.MovingSQL + `)
    ORDER BY j.ready_at, j.id
    LIMIT share.most
    FOR UPDATE SKIP LOCKED
  ) AS found
  LIMIT share.most
) AS picked
LIMIT @max`
)

// claimSQL picks and leases in one statement: as many of the picked jobs as the bytes allow, and at
// least one. MATERIALIZED keeps the LIMITs inside their sub-select.
const claimSQL = `
WITH pick AS MATERIALIZED (
  SELECT p.id, row_number() OVER (ROWS UNBOUNDED PRECEDING) AS place,
         sum(p.size + @size_else::integer) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
  FROM (` + pickSQL + `) AS p
), chosen AS MATERIALIZED (
  SELECT array_agg(id ORDER BY id) AS ids, array_agg(place ORDER BY id) AS places, (SELECT count(*) FROM pick) AS picked
  FROM pick
  WHERE place = 1 OR bytes <= @bytes::bigint
)
` + leaseSQL

// leaseSQL leases the jobs in chosen, which are queued and locked.
//
// It has no join. Its only condition stays on the primary key with all statistics, the array is
// built once, and values that differ by job are looked up in arrays: a job's place by binary search
// in the sorted ids, its worker by the last place of each, its lane's settings in the sorted lanes. With
// some statistics a join with pick reads the whole table, and both together make PostgreSQL build
// the array again for each row (decision 25).
const leaseSQL = `
UPDATE jobs
SET state = 'running',
    attempt = attempt + 1,
    epoch = epoch + 1,
    lease_id = @lease_id,
    worker_id = COALESCE((@workers::text[])[1 + width_bucket(` + placeSQL + ` - 1, @worker_lasts::bigint[])], ''),
    worker_owner = @worker_owner,
    -- the time of the reservations of budgets, where there are any
    started_at = COALESCE(@at::timestamptz, statement_timestamp()),
    counted = counted | (@counted::smallint[])[width_bucket(lane_id, @lanes::bigint[])],
    visibility_timeout_ms = COALESCE(` + visibilitySQL + `, 0),
    -- a lease never outlives the attempt's own timeout
    lease_expires_at = LEAST((statement_timestamp() AT TIME ZONE 'UTC' + ` + visibilitySQL + ` * interval '1 millisecond') AT TIME ZONE 'UTC',
                             (statement_timestamp() AT TIME ZONE 'UTC' + timeout_ms * interval '1 millisecond') AT TIME ZONE 'UTC'),
    -- a new lease: the last outcome's token no longer has a replay
    outcome_lease_id = NULL, outcome_hash = NULL, outcome_answer = NULL
WHERE id = ANY((SELECT ids FROM chosen)::uuid[])
RETURNING id, tenant_id, lane_id, user_id, type, queue, payload, priority, attempt, max_attempts, epoch,
          lease_expires_at, deadline, timeout_ms, tags, metadata, correlation_id, traceparent, created_at,
          ready_at, CASE WHEN key IS NOT NULL THEN waiting_since END AS waiting_since, started_at, linked, size, checkpoint, ` + placeSQL + ` AS place, (SELECT picked FROM chosen) AS picked`

const (
	placeSQL      = `(SELECT places FROM chosen)[width_bucket(id, (SELECT ids FROM chosen))]`
	visibilitySQL = `(@visibilities::bigint[])[width_bucket(lane_id, @lanes::bigint[])]`
)

// Result is the result of a claim.
type Result struct {
	// Jobs are in the order in which they were picked.
	Jobs []Job
	// Scanned says how far the claim scanned its ready lists.
	Scanned []ScanProgress
	// Cut says that more were found than the claim's bytes allow. They are still queued, but
	// concurrent claims have skipped them while they were locked.
	Cut bool
	// Misrouted were found in the wrong lane and left there; see Claimer.Move.
	Misrouted []MisroutedJob
	// Busy are tenants whose lanes were skipped because another claim holds their lock; tenant.Platform stands for all lanes
	// under the installation's cap.
	Busy []tenant.ID
}

// Claim leases jobs of any number of tenants' lanes to workers of one owner. After an error nothing
// is leased, or with ErrOutcomeUnknown that is unknown: such leases expire.
func (s *Claimer) Claim(ctx context.Context, request Request) (result Result, err error) {
	if len(request.Lanes) == 0 || request.max() <= 0 {
		return Result{}, nil
	}
	if request.guarded() {
		result, err = s.claimGuarded(ctx, &request)
	} else {
		result, err = s.claimAtOnce(ctx, &request)
	}
	if err != nil {
		return Result{}, fmt.Errorf("claim: %w", err)
	}
	for i := range result.Jobs {
		result.Jobs[i].LeaseID = request.LeaseID
	}
	return result, nil
}

// claimAtOnce picks and leases with one statement.
func (s *Claimer) claimAtOnce(ctx context.Context, claim *Request) (taken Result, err error) {
	args := claim.leaseArgs()
	shares := claim.shares()
	maps.Copy(args, pickArgs(shares, claim.max(), nil))
	args["bytes"], args["size_else"] = claim.bytes(), jobOverhead
	if taken.Jobs, err = store.Query(ctx, s.Store, scanJob, claimSQL, args); err != nil {
		return taken, err
	}
	byPlace(taken.Jobs)
	picks := make([]picked, len(taken.Jobs))
	for i := range taken.Jobs {
		picks[i] = picked{ID: taken.Jobs[i].ID, LaneID: taken.Jobs[i].LaneID, Priority: taken.Jobs[i].Priority, ReadyAt: taken.Jobs[i].ReadyAt}
	}
	most := claim.max()
	if n := len(taken.Jobs); n > 0 && taken.Jobs[0].Picked > int64(n) {
		most, taken.Cut = n, true // the scan ended there, as for a claim of n jobs
	}
	taken.Scanned = scanned(shares, picks, most)
	return taken, nil
}

// byPlace sorts jobs by the order in which they were picked: UPDATE returns its rows unordered.
func byPlace(jobs []Job) {
	slices.SortFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Place, b.Place) })
}

// leaseArgs are those of leaseSQL.
func (c *Request) leaseArgs() store.Args {
	lanes, visibilities, counted := make([]lanes.ID, len(c.Lanes)), make([]int64, len(c.Lanes)), make([]int16, len(c.Lanes))
	order := make([]*Lane, len(c.Lanes))
	for i := range c.Lanes {
		order[i] = &c.Lanes[i]
	}
	slices.SortFunc(order, func(a, b *Lane) int { return cmp.Compare(a.ID, b.ID) })
	for i, lane := range order {
		lanes[i], visibilities[i] = lane.ID, lane.VisibilityTimeout.Milliseconds()
		counted[i] = int16(caps.BitsOf(lane.Caps))
	}
	workers, lasts := make([]string, len(c.Workers)), make([]int64, len(c.Workers))
	last := int64(0)
	for i, worker := range c.Workers {
		last += int64(worker.Max)
		workers[i], lasts[i] = worker.ID, last
	}
	return store.Args{
		"lanes": lanes, "visibilities": visibilities, "counted": counted,
		"lease_id": c.LeaseID, "workers": workers, "worker_lasts": lasts, "worker_owner": c.Owner, "at": nil,
	}
}

// pickArgs are those of pickSQL.
func pickArgs(shares []Share, most int, without []string) store.Args {
	firsts, lasts, mosts := make([]int32, len(shares)), make([]int32, len(shares)), make([]int64, len(shares))
	var lists []ReadyList
	for i := range shares {
		firsts[i] = int32(len(lists) + 1) //nolint:gosec // a claim has few lists; SQL counts from 1
		lists = append(lists, shares[i].Lists...)
		lasts[i], mosts[i] = int32(len(lists)), int64(shares[i].Most) //nolint:gosec // likewise
	}
	args := listArgs(lists)
	args["share_firsts"], args["share_lasts"], args["share_mosts"] = firsts, lasts, mosts
	args["max"], args["without"] = most, store.EmptyIfNil(without)
	return args
}
