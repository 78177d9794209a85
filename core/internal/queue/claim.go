package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Claim asks for jobs of some lanes.
type Claim struct {
	// Lanes are tried in this order, priority by priority. A lane stands in it once:
	// SKIP LOCKED does not skip what the statement itself has locked.
	Lanes []ClaimLane
	Max   int
	// WorkerID and Owner name the worker; Owner is its tenant, or tenant.Platform.
	WorkerID string
	Owner    tenant.ID
	// Without are users whose jobs are passed by in lanes under a cap: strays for whom
	// there is no lane.
	Without []string
	// LeaseID is drawn for this claim: 128 random bits.
	LeaseID uuid.UUID
}

// ClaimLane is a lane with the length of a lease from it, and the caps on running
// jobs that its jobs come under.
type ClaimLane struct {
	ID                LaneID
	Tenant            tenant.ID
	VisibilityTimeout time.Duration
	Caps              []Cap
	// Strayed, where not nil, says of a user whether he has a running cap: then his
	// jobs belong into lanes of his own, and those found in this one are strays.
	Strayed func(user string) bool
}

// guarded says whether claims from the lane go under its tenant's lock.
func (l *ClaimLane) guarded() bool { return len(l.Caps) > 0 || l.Strayed != nil }

// claimSQL leases up to max jobs. Its entries are (lane, priority) in the order
// in which they are to be served; within one, jobs go by ready_at.
//
// An entry is one probe of the ready index; the LIMIT outside stops the walk as
// soon as enough are found, so no row is locked that is not taken. MATERIALIZED
// keeps the LIMIT with its sub-select. `id = ANY(ARRAY(…))` is the one form that
// stays on the primary key with every set of statistics; UPDATE … FROM pick does
// not. For the same reason the lane's visibility timeout is no join.
const claimSQL = `
WITH pick AS MATERIALIZED (
  SELECT ready.id
  FROM unnest(@entry_lanes::integer[], @entry_priorities::smallint[]) AS entry(lane_id, priority)
  CROSS JOIN LATERAL (
    SELECT j.id
    FROM jobs j
    WHERE j.state = 'queued' AND j.lane_id = entry.lane_id AND j.priority = entry.priority
      -- of no use any more: the next sweep buries it
      AND (j.deadline IS NULL OR j.deadline > statement_timestamp())
    ORDER BY j.ready_at, j.id
    LIMIT @max
    FOR UPDATE SKIP LOCKED
  ) AS ready
  LIMIT @max
)
` + leaseSQL + `ARRAY(SELECT id FROM pick))` + leasedSQL

// leaseSQL and leasedSQL stand around the ids of the jobs to lease, which wait and
// are locked.
const (
	leaseSQL = `
UPDATE jobs
SET state = 'running',
    attempt = attempt + 1,
    epoch = epoch + 1,
    lease_id = @lease_id,
    worker_id = @worker_id,
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
WHERE id = ANY(`
	leasedSQL = `
RETURNING id, tenant_id, lane_id, user_id, type, queue, payload, priority, attempt, max_attempts, epoch,
          lease_expires_at, deadline, timeout_ms, tags, metadata, correlation_id, traceparent, created_at,
          ready_at, started_at`
)

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
	Jobs []Claimed
	// Strays were found in the wrong lane and left there; see Store.Move.
	Strays []Stray
	// Busy says that lanes were left out because another claim has their tenant's lock.
	Busy bool
}

// Claim leases jobs of any number of tenants' lanes to one worker. With an error
// nothing is leased, or with ErrOutcomeUnknown nobody knows: such leases run out.
func (s *Store) Claim(ctx context.Context, claim Claim) (Taken, error) {
	if len(claim.Lanes) == 0 || claim.Max <= 0 {
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
	lanes := make([]LaneID, len(claim.Lanes))
	for i := range claim.Lanes {
		lanes[i] = claim.Lanes[i].ID
	}
	args["entry_lanes"], args["entry_priorities"] = entries(lanes)
	args["max"] = claim.Max
	taken.Jobs, err = query(ctx, s, pgx.RowToStructByName[Claimed], claimSQL, args)
	return taken, err
}

// leaseArgs are those of leaseSQL.
func (c *Claim) leaseArgs() pgx.StrictNamedArgs {
	lanes, visibilities, counted := make([]LaneID, len(c.Lanes)), make([]int64, len(c.Lanes)), make([]int16, len(c.Lanes))
	for i := range c.Lanes {
		lane := &c.Lanes[i]
		lanes[i], visibilities[i] = lane.ID, lane.VisibilityTimeout.Milliseconds()
		counted[i] = int16(bitsOf(lane.Caps))
	}
	return pgx.StrictNamedArgs{
		"lanes": lanes, "visibilities": visibilities, "counted": counted,
		"lease_id": c.LeaseID, "worker_id": c.WorkerID, "worker_owner": c.Owner,
	}
}

// entries lists every (lane, priority), high priorities first.
func entries(lanes []LaneID) (entryLanes []LaneID, priorities []int16) {
	for priority := int16(api.MaxPriority); priority >= 0; priority-- {
		for _, lane := range lanes {
			entryLanes, priorities = append(entryLanes, lane), append(priorities, priority)
		}
	}
	return entryLanes, priorities
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
