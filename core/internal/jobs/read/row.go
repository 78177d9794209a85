package read

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Row is a job from any of the three tables. Its JSON is a row of PostgreSQL's, see FromJSON.
type Row struct {
	ID              uuid.UUID
	TenantID        tenant.ID `json:"tenant_id"`
	LaneID          lanes.ID  `json:"lane_id"`
	Queue           string
	Type            string
	UserID          *string `json:"user_id"`
	Priority        int16
	Payload         []byte `json:"-"`
	Tags            []string
	Metadata        []byte `json:"-"`
	Attempt         int32
	MaxAttempts     int32 `json:"max_attempts"`
	Epoch           int64
	Redrives        int32
	RetryBaseMs     int64   `json:"retry_base_ms"`
	RetryCapMs      int64   `json:"retry_cap_ms"`
	RetryJitter     float64 `json:"retry_jitter"`
	RetryCurve      string  `json:"retry_curve"`
	TimeoutMs       *int64  `json:"timeout_ms"`
	DedupeKey       *string `json:"dedupe_key"`
	Key             *string
	KeyWeight       *float64 `json:"key_weight"`
	Costs           api.Amounts
	CorrelationID   *string `json:"correlation_id"`
	Traceparent     *string
	CreatedAt       time.Time `json:"created_at"`
	RunAt           time.Time `json:"run_at"`
	Deadline        *time.Time
	StartedAt       *time.Time `json:"started_at"`
	WorkerID        *string    `json:"worker_id"`
	CancelRequested bool       `json:"cancel_requested"`
	// HasDependents: another job came after this one. Linked: this one comes after others.
	HasDependents bool `json:"has_dependents"`
	Linked        bool
	// RerunOf is the job that this one runs again; nil for none.
	RerunOf *uuid.UUID `json:"rerun_of"`
	// Progress has the epoch of its attempt, see progressOf.
	Progress       []byte     `json:"-"`
	Checkpoint     []byte     `json:"-"`
	LastError      []byte     `json:"-"`
	OutcomeLeaseID *uuid.UUID `json:"outcome_lease_id"`
	OutcomeHash    []byte     `json:"-"`
	OutcomeAnswer  []byte     `json:"-"`

	State          string
	LeaseID        *uuid.UUID `json:"lease_id"`
	LeaseExpiresAt *time.Time `json:"lease_expires_at"`
	Result         []byte     `json:"-"`
	Reason         *string
	FinishedAt     *time.Time `json:"finished_at"`
	// AtGate: the job is queued and waits for others of its key.
	AtGate bool `json:"at_gate"`

	// WaitingFor are the signals that a job waits for of which an event tells; nil of what was read.
	WaitingFor []string `db:"-" json:"waiting_for"`
	// Turn is the place of a new job in a fair lane; nil in other lanes, and of what was read.
	Turn *time.Time `db:"-" json:"-"`
	// After are the parents of a linked job that are still kept, BlockedBy is how many a blocked one
	// waits for; see AddParents.
	After     []api.JobDependency `db:"-" json:"-"`
	Workflow  *api.JobWorkflow    `db:"-" json:"-"`
	BlockedBy *int                `db:"-" json:"-"`
}

// FromJSON gives the job that row_to_json has written, of any of a job's columns.
func FromJSON(text []byte) (*Row, error) {
	var found struct {
		Row
		// Columns of JSON are nil for NULL.
		Metadata   *json.RawMessage `json:"metadata"`
		Progress   *json.RawMessage `json:"progress"`
		Checkpoint *json.RawMessage `json:"checkpoint"`
		LastError  *json.RawMessage `json:"last_error"`
		Result     *json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(text, &found); err != nil {
		return nil, fmt.Errorf("jobs: row: %w", err)
	}
	row := &found.Row
	if row.State == api.StateWaiting { // it is the time of the event
		row.FinishedAt = nil
	}
	row.Metadata, row.Progress, row.Checkpoint = store.OrElse(found.Metadata, nil), store.OrElse(found.Progress, nil), store.OrElse(found.Checkpoint, nil)
	row.LastError, row.Result = store.OrElse(found.LastError, nil), store.OrElse(found.Result, nil)
	return row, nil
}

// Failure is the error of the last attempt, nil for none.
func (r *Row) Failure() *api.JobError {
	if len(r.LastError) == 0 {
		return nil
	}
	var stored api.JobError
	if err := json.Unmarshal(r.LastError, &stored); err != nil {
		return nil // only this package writes it, from a JobError
	}
	return &stored
}

// Summary is the job as lists show it: without payload and result.
func (r *Row) Summary() api.JobSummary {
	s := api.JobSummary{
		ID: r.ID.String(), Type: r.Type, Queue: r.Queue, User: r.UserID, State: r.State,
		Priority: int(r.Priority), Tags: r.Tags, Metadata: store.Metadata(r.Metadata),
		Attempt: int(r.Attempt), MaxAttempts: int(r.MaxAttempts), Epoch: r.Epoch, Redrives: int(r.Redrives),
		RunAt: &api.Time{Time: r.RunAt}, Deadline: api.AtOrNil(r.Deadline), TimeoutMS: r.TimeoutMs,
		Retry:     api.Retry{BaseMS: r.RetryBaseMs, CapMS: r.RetryCapMs, Jitter: r.RetryJitter, Curve: r.RetryCurve},
		DedupeKey: r.DedupeKey, Key: store.NullIfEmpty(store.OrElse(r.Key, "")), KeyWeight: r.KeyWeight, Costs: r.Costs, CancelRequested: r.CancelRequested,
		WorkerID: r.WorkerID, LeaseExpiresAt: api.AtOrNil(r.LeaseExpiresAt), LastError: r.Failure().Brief(),
		DeadReason: r.Reason, CorrelationID: r.CorrelationID, Traceparent: r.Traceparent,
		Workflow: r.Workflow, After: store.EmptyIfNil(r.After), BlockedBy: r.BlockedBy, WaitingFor: store.EmptyIfNil(r.WaitingFor),
		Progress:  progressOf(r.Progress, r.Epoch),
		CreatedAt: api.At(r.CreatedAt), StartedAt: api.AtOrNil(r.StartedAt), FinishedAt: api.AtOrNil(r.FinishedAt),
	}
	if r.RerunOf != nil {
		of := r.RerunOf.String()
		s.RerunOf = &of
	}
	if s.Tags == nil {
		s.Tags = []string{}
	}
	return s
}

// Job is all of the job, payload and result included.
func (r *Row) Job() api.Job {
	return api.Job{JobSummary: r.Summary(), Payload: r.Payload, Result: r.Result, Checkpoint: r.Checkpoint, LastError: r.Failure()}
}

// StoredProgress is a progress as it is stored, with the epoch of its attempt.
type StoredProgress struct {
	api.Progress
	Epoch int64 `json:"epoch"`
}

// progressOf is the progress of the job's last attempt; nil if it has reported none.
func progressOf(stored []byte, epoch int64) *api.Progress {
	var p StoredProgress
	if len(stored) == 0 || json.Unmarshal(stored, &p) != nil || p.Epoch != epoch {
		return nil
	}
	return &p.Progress
}
