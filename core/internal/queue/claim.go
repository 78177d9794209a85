package queue

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Claim asks for jobs of some lanes.
type Claim struct {
	// Lanes are those that the claim is about, each once.
	Lanes []ClaimLane
	// Shares are served in this order. None: one share of all lanes from their heads,
	// of as many jobs as the workers take.
	Shares []Share
	// Workers take the jobs in this order, each as many as it asks for.
	Workers []ClaimWorker
	// Owner is the workers' tenant, or tenant.Platform.
	Owner tenant.ID
	// Without are users whose jobs are passed by in lanes under a cap: misrouted for whom
	// there is no lane.
	Without []string
	// LeaseID is drawn for this claim: 128 random bits.
	LeaseID uuid.UUID
	// Bytes bounds the jobs of the claim together, but for the first one, which is always
	// taken; 0 is api.MaxClaimBytes.
	Bytes int
}

// ClaimWorker takes at most Max jobs of a claim.
type ClaimWorker struct {
	ID  string
	Max int
}

// ClaimLane is a lane with the length of a lease from it, and what limits the jobs
// that run from it.
type ClaimLane struct {
	ID                directory.LaneID
	Tenant            tenant.ID
	VisibilityTimeout time.Duration
	// Caps are those on running jobs that its jobs come under.
	Caps []usage.Cap
	// Rate, where not nil, is how many of the queue's jobs may start in a second.
	Rate *usage.Rate
	// IsMisrouted, where not nil, says of a user whether he has a running cap: then his
	// jobs belong into lanes of the user's own, and those found in this one are misrouted.
	IsMisrouted func(user string) bool
}

// guarded says whether claims from the lane go under its tenant's lock.
func (l *ClaimLane) guarded() bool { return len(l.Caps) > 0 || l.IsMisrouted != nil || l.Rate != nil }

// max is how many jobs the workers take.
func (c *Claim) max() int {
	most := 0
	for _, worker := range c.Workers {
		most += worker.Max
	}
	return most
}

// bytes are how many the jobs may have.
func (c *Claim) bytes() int64 {
	if c.Bytes == 0 {
		return api.MaxClaimBytes
	}
	return int64(c.Bytes)
}

// shares are those of the claim, or the one that stands for none.
func (c *Claim) shares() []Share {
	if len(c.Shares) > 0 {
		return c.Shares
	}
	all := Share{Most: c.max()}
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for i := range c.Lanes {
			all.Lists = append(all.Lists, ReadyList{Lane: c.Lanes[i].ID, Priority: priority})
		}
	}
	return []Share{all}
}

// pickSQL locks jobs that may be leased, share after share, in each its lines one
// after the other, within one by ready_at.
//
// A line is one probe of the ready index, behind its cursor: what was claimed
// before, and under an old snapshot still lies in the index, is not walked again.
// The share's LIMIT stands outside its lines, so that they have it together; one
// for each line would let two of them take everything. The LIMITs stop the walk as
// soon as enough are found: no row is locked that is not taken, but for those that
// are too many bytes. A line must not stand in it twice: SKIP LOCKED does not skip
// what the statement itself has locked.
const pickSQL = `
SELECT picked.id, picked.lane_id, picked.priority, picked.ready_at, picked.user_id, picked.size
FROM unnest(@share_firsts::integer[], @share_lasts::integer[], @share_mosts::bigint[]) AS share(first, last, most)
CROSS JOIN LATERAL (
  SELECT found.id, line.lane_id, line.priority, found.ready_at, found.user_id, found.size
  FROM unnest((@line_lanes::integer[])[share.first:share.last], (@line_priorities::smallint[])[share.first:share.last],
              (@line_ats::timestamptz[])[share.first:share.last], (@line_ids::uuid[])[share.first:share.last])
       AS line(lane_id, priority, at, id)
  CROSS JOIN LATERAL (
    SELECT j.id, j.ready_at, j.user_id,
           -- measured only where it was not stored with the job: that reads the payload
           COALESCE(j.size, octet_length(j.payload::text) + octet_length(j.metadata::text) + octet_length(j.tags::text)) AS size
    FROM jobs j
    WHERE j.state = 'queued' AND j.lane_id = line.lane_id AND j.priority = line.priority
      AND (j.ready_at, j.id) > (line.at, line.id)
      -- of no use any more: the next sweep buries it
      AND (j.deadline IS NULL OR j.deadline > statement_timestamp())
      AND (j.user_id IS NULL OR j.user_id <> ALL(@without::text[]))
    ORDER BY j.ready_at, j.id
    LIMIT share.most
    FOR UPDATE SKIP LOCKED
  ) AS found
  LIMIT share.most
) AS picked
LIMIT @max`

// claimSQL picks and leases in one statement: of what was picked as many as the bytes
// allow, and one always. MATERIALIZED keeps the LIMITs with their sub-select.
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

// leaseSQL leases the jobs in chosen, which wait and are locked.
//
// It joins nothing. Its only condition is the one that stays on the primary key with
// every set of statistics, the array is made once, and what differs from job to job is
// looked up in arrays: a job's place, by binary search in the sorted ids; its worker, by
// the last place of each; and what belongs to its lane. A join with pick reads the whole
// table after some statistics, and both together make PostgreSQL prepare the array anew
// for each row (decision 25).
const leaseSQL = `
UPDATE jobs
SET state = 'running',
    attempt = attempt + 1,
    epoch = epoch + 1,
    lease_id = @lease_id,
    worker_id = (@workers::text[])[1 + width_bucket(` + placeSQL + ` - 1, @worker_lasts::bigint[])],
    worker_owner = @worker_owner,
    started_at = statement_timestamp(),
    counted = counted | (@counted::smallint[])[array_position(@lanes::integer[], lane_id)],
    visibility_timeout_ms = ` + visibilitySQL + `,
    -- a lease never outlives the attempt's own timeout
    lease_expires_at = LEAST(statement_timestamp() + ` + visibilitySQL + ` * interval '1 millisecond',
                             statement_timestamp() + timeout_ms * interval '1 millisecond'),
    -- claimed again: the last outcome's token is from now on as good as any stranger's
    outcome_lease_id = NULL, outcome_hash = NULL, outcome_answer = NULL
WHERE id = ANY((SELECT ids FROM chosen)::uuid[])
RETURNING id, tenant_id, lane_id, user_id, type, queue, payload, priority, attempt, max_attempts, epoch,
          lease_expires_at, deadline, timeout_ms, tags, metadata, correlation_id, traceparent, created_at,
          ready_at, started_at, ` + placeSQL + ` AS place, (SELECT picked FROM chosen) AS picked`

const (
	placeSQL      = `(SELECT places FROM chosen)[width_bucket(id, (SELECT ids FROM chosen))]`
	visibilitySQL = `(@visibilities::bigint[])[array_position(@lanes::integer[], lane_id)]`
)

// sizeElse is what a job takes in an answer beside payload, metadata and tags.
const sizeElse = 1 << 10

// Claimed is a job that is now leased.
type Claimed struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	LaneID         directory.LaneID
	UserID         *string
	Type           string
	Queue          string
	Payload        []byte
	Priority       int16
	Attempt        int32
	MaxAttempts    int32
	Epoch          int64
	LeaseExpiresAt time.Time
	Deadline       *time.Time
	TimeoutMs      *int64
	Tags           []string
	Metadata       []byte
	CorrelationID  *string
	Traceparent    *string
	CreatedAt      time.Time
	ReadyAt        time.Time
	StartedAt      time.Time
	// Place is the job's among those of its claim, from 1: it says which worker's it is.
	Place int64
	// Picked is how many the claim had found: more than it took where they were too many
	// bytes.
	Picked int64

	LeaseID uuid.UUID `db:"-"`
}

// Lease is what the holder names.
func (c Claimed) Lease() job.Lease {
	return job.Lease{Tenant: c.TenantID, Job: c.ID, Epoch: c.Epoch, ID: c.LeaseID}
}

// Size is about how many bytes the job takes in an answer.
func (c Claimed) Size() int {
	size := sizeElse + len(c.Payload) + len(c.Metadata)
	for _, tag := range c.Tags {
		size += len(tag) + len(`,`)
	}
	return size
}

// Wire is the job as its worker gets it.
func (c Claimed) Wire() api.ClaimedJob {
	return api.ClaimedJob{
		ID: c.ID.String(), Tenant: c.TenantID.String(), User: c.UserID, Type: c.Type, Queue: c.Queue,
		Payload: c.Payload, Priority: int(c.Priority), Attempt: int(c.Attempt), MaxAttempts: int(c.MaxAttempts),
		Epoch: c.Epoch, LeaseToken: c.Lease().Token(), LeaseExpiresAt: api.At(c.LeaseExpiresAt),
		// both are of the statement that leased it
		LeaseMS:  c.LeaseExpiresAt.Sub(c.StartedAt).Milliseconds(),
		Deadline: api.AtOrNil(c.Deadline), TimeoutMS: c.TimeoutMs, Tags: c.Tags, Metadata: store.Metadata(c.Metadata),
		CorrelationID: c.CorrelationID, Traceparent: c.Traceparent, CreatedAt: api.At(c.CreatedAt),
	}
}

// Taken is what a claim came to.
type Taken struct {
	// Jobs are in the order in which they were picked.
	Jobs []Claimed
	// Scanned says how far the claim came in the ready lists that it scanned.
	Scanned []ScanProgress
	// Cut says that more were found than the claim's bytes allow. They wait as before, but
	// claims at the same time have passed them by.
	Cut bool
	// Misrouted were found in the wrong lane and left there; see Store.Move.
	Misrouted []MisroutedJob
	// Busy are tenants whose lanes were left out because another claim has their lock;
	// tenant.Platform stands for all under the installation's cap.
	Busy []tenant.ID
}

// Claim leases jobs of any number of tenants' lanes to workers of one owner. With an
// error nothing is leased, or with ErrOutcomeUnknown nobody knows: such leases run out.
func (s *Jobs) Claim(ctx context.Context, claim Claim) (Taken, error) {
	if len(claim.Lanes) == 0 || claim.max() <= 0 {
		return Taken{}, nil
	}
	taken, err := s.claim(ctx, &claim)
	if err != nil {
		return Taken{}, fmt.Errorf("queue: claim: %w", err)
	}
	for i := range taken.Jobs {
		taken.Jobs[i].LeaseID = claim.LeaseID
	}
	return taken, nil
}

func (s *Jobs) claim(ctx context.Context, claim *Claim) (taken Taken, err error) {
	for i := range claim.Lanes {
		if !claim.Lanes[i].guarded() {
			continue
		}
		err = s.InTx(ctx, func(tx pgx.Tx) error {
			taken, err = s.claimGuarded(ctx, tx, claim)
			return err
		})
		return taken, err
	}
	args := claim.leaseArgs()
	shares := claim.shares()
	maps.Copy(args, pickArgs(shares, claim.max(), nil))
	args["bytes"], args["size_else"] = claim.bytes(), sizeElse
	if taken.Jobs, err = store.Query(ctx, s.Store, pgx.RowToStructByName[Claimed], claimSQL, args); err != nil {
		return taken, err
	}
	byPlace(taken.Jobs)
	picks := make([]picked, len(taken.Jobs))
	for i := range taken.Jobs {
		picks[i] = picked{ID: taken.Jobs[i].ID, LaneID: taken.Jobs[i].LaneID, Priority: taken.Jobs[i].Priority, ReadyAt: taken.Jobs[i].ReadyAt}
	}
	most := claim.max()
	if n := len(taken.Jobs); n > 0 && taken.Jobs[0].Picked > int64(n) {
		most, taken.Cut = n, true // it ended there, as a claim of so many jobs does
	}
	taken.Scanned = scanned(shares, picks, most)
	return taken, nil
}

// byPlace puts jobs in the order in which they were picked: UPDATE gives its rows in
// any.
func byPlace(jobs []Claimed) {
	slices.SortFunc(jobs, func(a, b Claimed) int { return cmp.Compare(a.Place, b.Place) })
}

// leaseArgs are those of leaseSQL.
func (c *Claim) leaseArgs() pgx.StrictNamedArgs {
	lanes, visibilities, counted := make([]directory.LaneID, len(c.Lanes)), make([]int64, len(c.Lanes)), make([]int16, len(c.Lanes))
	for i := range c.Lanes {
		lane := &c.Lanes[i]
		lanes[i], visibilities[i] = lane.ID, lane.VisibilityTimeout.Milliseconds()
		counted[i] = int16(usage.BitsOf(lane.Caps))
	}
	workers, lasts := make([]string, len(c.Workers)), make([]int64, len(c.Workers))
	last := int64(0)
	for i, worker := range c.Workers {
		last += int64(worker.Max)
		workers[i], lasts[i] = worker.ID, last
	}
	return pgx.StrictNamedArgs{
		"lanes": lanes, "visibilities": visibilities, "counted": counted,
		"lease_id": c.LeaseID, "workers": workers, "worker_lasts": lasts, "worker_owner": c.Owner,
	}
}

// pickArgs are those of pickSQL.
func pickArgs(shares []Share, most int, without []string) pgx.StrictNamedArgs {
	firsts, lasts, mosts := make([]int32, len(shares)), make([]int32, len(shares)), make([]int64, len(shares))
	var lines []ReadyList
	for i := range shares {
		firsts[i] = int32(len(lines) + 1) //nolint:gosec // a claim has few lines; SQL counts from 1
		lines = append(lines, shares[i].Lists...)
		lasts[i], mosts[i] = int32(len(lines)), int64(shares[i].Most) //nolint:gosec // likewise
	}
	args := lineArgs(lines)
	args["share_firsts"], args["share_lasts"], args["share_mosts"] = firsts, lasts, mosts
	args["max"], args["without"] = most, null.List(without)
	return args
}

// readyLanesSQL asks of each lane whether it holds a job that can be claimed: one
// probe of the ready index for each.
const readyLanesSQL = `
SELECT lane.id
FROM unnest(@lanes::integer[]) AS lane(id)
WHERE EXISTS (SELECT FROM jobs j WHERE j.state = 'queued' AND j.lane_id = lane.id)`

// ReadyLanes tells which of the lanes, of any tenants, hold a claimable job. It
// is the net under wake-ups that got lost.
func (s *Jobs) ReadyLanes(ctx context.Context, lanes []directory.LaneID) ([]directory.LaneID, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	ready, err := store.Query(ctx, s.Store, pgx.RowTo[directory.LaneID], readyLanesSQL, pgx.StrictNamedArgs{"lanes": lanes})
	if err != nil {
		return nil, fmt.Errorf("queue: ready lanes: %w", store.NothingChanged(err))
	}
	return ready, nil
}
