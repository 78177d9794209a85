package jobs

import (
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// EndedAttempt is an ended attempt, for its log line, and for its span where the job has a trace.
type EndedAttempt struct {
	Job     uuid.UUID
	Tenant  tenant.ID
	Type    string
	Queue   string
	Attempt int32
	Epoch   int64
	// CorrelationID and Traceparent are the job's; empty for none.
	CorrelationID, Traceparent string
	// Started and Ended are PostgreSQL's times.
	Started, Ended time.Time
}

// attempt is nil unless attempts are logged.
func (s *Jobs) attempt(made EndedAttempt, correlationID, traceparent *string, started *time.Time) *EndedAttempt {
	if !s.logAttempts || started == nil {
		return nil
	}
	made.Started = *started
	if correlationID != nil {
		made.CorrelationID = *correlationID
	}
	if traceparent != nil {
		made.Traceparent = *traceparent
	}
	return &made
}

// attemptOf is attempt for a locked row. A job that was not running has no attempt to end.
func (s *Jobs) attemptOf(row *lockedRow) *EndedAttempt {
	if row.LeaseID == nil {
		return nil
	}
	return s.attempt(EndedAttempt{
		Job: row.ID, Tenant: row.TenantID, Type: row.Type, Queue: row.Queue, Attempt: row.Attempt, Epoch: row.Epoch, Ended: row.Now,
	}, row.CorrelationID, row.Traceparent, row.StartedAt)
}
