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

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
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
	// Without are users whose jobs are passed by in lanes under a cap: strays for whom
	// there is no lane.
	Without []string
	// LeaseID is drawn for this claim: 128 random bits.
	LeaseID uuid.UUID
}

// ClaimWorker takes at most Max jobs of a claim.
type ClaimWorker struct {
	ID  string
	Max int
}

// ClaimLane is a lane with the length of a lease from it, and what limits the jobs
// that run from it.
type ClaimLane struct {
	ID                LaneID
	Tenant            tenant.ID
	VisibilityTimeout time.Duration
	// Caps are those on running jobs that its jobs come under.
	Caps []Cap
	// Rate, where not nil, is how many of the queue's jobs may start in a second.
	Rate *Rate
	// Strayed, where not nil, says of a user whether he has a running cap: then his
	// jobs belong into lanes of his own, and those found in this one are strays.
	Strayed func(user string) bool
}

// guarded says whether claims from the lane go under its tenant's lock.
func (l *ClaimLane) guarded() bool { return len(l.Caps) > 0 || l.Strayed != nil || l.Rate != nil }

// max is how many jobs the workers take.
func (c *Claim) max() int {
	most := 0
	for _, worker := range c.Workers {
		most += worker.Max
	}
	return most
}

// shares are those of the claim, or the one that stands for none.
func (c *Claim) shares() []Share {
	if len(c.Shares) > 0 {
		return c.Shares
	}
	all := Share{Most: c.max()}
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for i := range c.Lanes {
			all.Lines = append(all.Lines, Line{Lane: c.Lanes[i].ID, Priority: priority})
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
// soon as enough are found: no row is locked that is not taken. A line must not
// stand in it twice: SKIP LOCKED does not skip what the statement itself has locked.
const pickSQL = `
SELECT picked.id, picked.lane_id, picked.priority, picked.ready_at, picked.user_id
FROM unnest(@share_firsts::integer[], @share_lasts::integer[], @share_mosts::bigint[]) AS share(first, last, most)
CROSS JOIN LATERAL (
  SELECT found.id, line.lane_id, line.priority, found.ready_at, found.user_id
  FROM unnest((@line_lanes::integer[])[share.first:share.last], (@line_priorities::smallint[])[share.first:share.last],
              (@line_ats::timestamptz[])[share.first:share.last], (@line_ids::uuid[])[share.first:share.last])
       AS line(lane_id, priority, at, id)
  CROSS JOIN LATERAL (
    SELECT j.id, j.ready_at, j.user_id
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

// claimSQL picks and leases in one statement. MATERIALIZED keeps the LIMITs with
// their sub-select. `id = ANY(ARRAY(…))` is the form that stays on the primary key
// with every set of statistics; a join with pick alone does not. For the same
// reason the lane's visibility timeout is no join.
const claimSQL = `
WITH pick AS MATERIALIZED (
  SELECT p.id, row_number() OVER () AS place FROM (` + pickSQL + `) AS p
)
` + leaseSQL

// leaseSQL leases the jobs in pick, which wait and are locked.
const leaseSQL = `
UPDATE jobs
SET state = 'running',
    attempt = attempt + 1,
    epoch = epoch + 1,
    lease_id = @lease_id,
    -- place by place
    worker_id = (@workers::text[])[pick.place::integer],
    worker_owner = @worker_owner,
    started_at = statement_timestamp(),
    -- a lease never outlives the attempt's own timeout
    (counted, visibility_timeout_ms, lease_expires_at) = (
      SELECT jobs.counted | lane.counted, lane.visibility_ms,
             LEAST(statement_timestamp() + lane.visibility_ms * interval '1 millisecond',
                   statement_timestamp() + jobs.timeout_ms * interval '1 millisecond')
      FROM unnest(@lanes::integer[], @visibilities::bigint[], @counted::smallint[]) AS lane(id, visibility_ms, counted)
      WHERE lane.id = jobs.lane_id),
    -- claimed again: the last outcome's token is from now on as good as any stranger's
    outcome_lease_id = NULL, outcome_hash = NULL, outcome_answer = NULL
FROM pick
WHERE jobs.id = ANY(ARRAY(SELECT id FROM pick)) AND jobs.id = pick.id
RETURNING jobs.id, tenant_id, lane_id, user_id, type, queue, payload, priority, attempt, max_attempts, epoch,
          lease_expires_at, deadline, timeout_ms, tags, metadata, correlation_id, traceparent, created_at,
          ready_at, started_at, pick.place`

// Claimed is a job that is now leased.
type Claimed struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	LaneID         LaneID
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

	LeaseID uuid.UUID `db:"-"`
}

// Lease is what the holder names.
func (c Claimed) Lease() job.Lease {
	return job.Lease{Tenant: c.TenantID, Job: c.ID, Epoch: c.Epoch, ID: c.LeaseID}
}

// Wire is the job as its worker gets it.
func (c Claimed) Wire() api.ClaimedJob {
	return api.ClaimedJob{
		ID: c.ID.String(), Tenant: c.TenantID.String(), User: c.UserID, Type: c.Type, Queue: c.Queue,
		Payload: c.Payload, Priority: int(c.Priority), Attempt: int(c.Attempt), MaxAttempts: int(c.MaxAttempts),
		Epoch: c.Epoch, LeaseToken: c.Lease().Token(), LeaseExpiresAt: api.At(c.LeaseExpiresAt),
		// both are of the statement that leased it
		LeaseMS:  c.LeaseExpiresAt.Sub(c.StartedAt).Milliseconds(),
		Deadline: api.AtOrNil(c.Deadline), TimeoutMS: c.TimeoutMs, Tags: c.Tags, Metadata: decodeMetadata(c.Metadata),
		CorrelationID: c.CorrelationID, Traceparent: c.Traceparent, CreatedAt: api.At(c.CreatedAt),
	}
}

// Taken is what a claim came to.
type Taken struct {
	// Jobs are in the order in which they were picked.
	Jobs []Claimed
	// Walked says how far the claim came in the lines that it looked at.
	Walked []Walked
	// Strays were found in the wrong lane and left there; see Store.Move.
	Strays []Stray
	// Busy are tenants whose lanes were left out because another claim has their lock;
	// tenant.Platform stands for all under the installation's cap.
	Busy []tenant.ID
}

// Claim leases jobs of any number of tenants' lanes to workers of one owner. With an
// error nothing is leased, or with ErrOutcomeUnknown nobody knows: such leases run out.
func (s *Store) Claim(ctx context.Context, claim Claim) (Taken, error) {
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

func (s *Store) claim(ctx context.Context, claim *Claim) (taken Taken, err error) {
	for i := range claim.Lanes {
		if !claim.Lanes[i].guarded() {
			continue
		}
		err = s.inTx(ctx, func(tx pgx.Tx) error {
			taken, err = s.claimGuarded(ctx, tx, claim)
			return err
		})
		return taken, err
	}
	args := claim.leaseArgs()
	shares := claim.shares()
	maps.Copy(args, pickArgs(shares, claim.max(), nil))
	if taken.Jobs, err = query(ctx, s, pgx.RowToStructByName[Claimed], claimSQL, args); err != nil {
		return taken, err
	}
	byPlace(taken.Jobs)
	picks := make([]picked, len(taken.Jobs))
	for i := range taken.Jobs {
		picks[i] = picked{ID: taken.Jobs[i].ID, LaneID: taken.Jobs[i].LaneID, Priority: taken.Jobs[i].Priority, ReadyAt: taken.Jobs[i].ReadyAt}
	}
	taken.Walked = walked(shares, picks, claim.max())
	return taken, nil
}

// byPlace puts jobs in the order in which they were picked: UPDATE gives its rows in
// any.
func byPlace(jobs []Claimed) {
	slices.SortFunc(jobs, func(a, b Claimed) int { return cmp.Compare(a.Place, b.Place) })
}

// leaseArgs are those of leaseSQL.
func (c *Claim) leaseArgs() pgx.StrictNamedArgs {
	lanes, visibilities, counted := make([]LaneID, len(c.Lanes)), make([]int64, len(c.Lanes)), make([]int16, len(c.Lanes))
	for i := range c.Lanes {
		lane := &c.Lanes[i]
		lanes[i], visibilities[i] = lane.ID, lane.VisibilityTimeout.Milliseconds()
		counted[i] = int16(bitsOf(lane.Caps))
	}
	workers := make([]string, 0, c.max())
	for _, worker := range c.Workers {
		for range worker.Max {
			workers = append(workers, worker.ID)
		}
	}
	return pgx.StrictNamedArgs{
		"lanes": lanes, "visibilities": visibilities, "counted": counted,
		"lease_id": c.LeaseID, "workers": workers, "worker_owner": c.Owner,
	}
}

// pickArgs are those of pickSQL.
func pickArgs(shares []Share, most int, without []string) pgx.StrictNamedArgs {
	firsts, lasts, mosts := make([]int32, len(shares)), make([]int32, len(shares)), make([]int64, len(shares))
	var lines []Line
	for i := range shares {
		firsts[i] = int32(len(lines) + 1) //nolint:gosec // a claim has few lines; SQL counts from 1
		lines = append(lines, shares[i].Lines...)
		lasts[i], mosts[i] = int32(len(lines)), int64(shares[i].Most) //nolint:gosec // likewise
	}
	args := lineArgs(lines)
	args["share_firsts"], args["share_lasts"], args["share_mosts"] = firsts, lasts, mosts
	args["max"], args["without"] = most, notNil(without)
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
func (s *Store) ReadyLanes(ctx context.Context, lanes []LaneID) ([]LaneID, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	ready, err := query(ctx, s, pgx.RowTo[LaneID], readyLanesSQL, pgx.StrictNamedArgs{"lanes": lanes})
	if err != nil {
		return nil, fmt.Errorf("queue: ready lanes: %w", nothingChanged(err))
	}
	return ready, nil
}
