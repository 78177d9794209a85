package claim

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// jobOverhead is a job's size in an answer without what jobs.size counts.
const jobOverhead = 1 << 10

// Job is a job that is now leased.
type Job struct {
	ID             uuid.UUID
	TenantID       tenant.ID
	LaneID         lanes.ID
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
	// WaitingSince is when a job with a key became ready; nil for another one, for which ReadyAt says so.
	WaitingSince *time.Time
	StartedAt    time.Time
	// Linked: it comes after others, or is one of a workflow.
	Linked bool
	// Stored is the size that is stored with the job, its parents' included.
	Stored int32
	// Checkpoint is what the attempt before has left; nil for nothing.
	Checkpoint []byte
	// Place is the job's position in its claim, from 1: it determines the worker.
	Place int64
	// Picked is how many jobs the claim found: more than it took where they were above the limit of
	// bytes.
	Picked int64

	LeaseID uuid.UUID
}

// scanJob reads a row of leaseSQL. By name pgx would look the fields up again for each row.
func scanJob(row pgx.CollectableRow) (j Job, err error) {
	err = row.Scan(&j.ID, &j.TenantID, &j.LaneID, &j.UserID, &j.Type, &j.Queue, &j.Payload, &j.Priority, &j.Attempt, &j.MaxAttempts, &j.Epoch,
		&j.LeaseExpiresAt, &j.Deadline, &j.TimeoutMs, &j.Tags, &j.Metadata, &j.CorrelationID, &j.Traceparent, &j.CreatedAt,
		&j.ReadyAt, &j.WaitingSince, &j.StartedAt, &j.Linked, &j.Stored, &j.Checkpoint, &j.Place, &j.Picked)
	return j, err
}

// Lease is the lease of the job.
func (c Job) Lease() job.Lease {
	return job.Lease{Tenant: c.TenantID, Job: c.ID, Epoch: c.Epoch, ID: c.LeaseID}
}

// Size is about the job's size in an answer, in bytes.
func (c Job) Size() int { return jobOverhead + int(c.Stored) }

// Wire is the job as its worker gets it.
func (c Job) Wire() api.ClaimedJob {
	return api.ClaimedJob{
		ID: c.ID.String(), Tenant: c.TenantID.String(), User: c.UserID, Type: c.Type, Queue: c.Queue,
		Payload: c.Payload, Checkpoint: c.Checkpoint, Priority: int(c.Priority), Attempt: int(c.Attempt), MaxAttempts: int(c.MaxAttempts),
		Epoch: c.Epoch, LeaseToken: c.Lease().Token(), LeaseExpiresAt: api.At(c.LeaseExpiresAt),
		// both are of the statement that leased it
		LeaseMS:  c.LeaseExpiresAt.Sub(c.StartedAt).Milliseconds(),
		Deadline: api.AtOrNil(c.Deadline), TimeoutMS: c.TimeoutMs, Tags: c.Tags, Metadata: store.Metadata(c.Metadata),
		CorrelationID: c.CorrelationID, Traceparent: c.Traceparent, CreatedAt: api.At(c.CreatedAt), Parents: []api.ClaimedParent{}, Signals: []api.ClaimedSignal{},
	}
}
