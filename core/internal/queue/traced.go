package queue

import (
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// TracedAttempt is what the span of an attempt that has ended tells.
type TracedAttempt struct {
	Job     uuid.UUID
	Tenant  tenant.ID
	Type    string
	Queue   string
	Attempt int32
	// Traceparent is the job's.
	Traceparent string
	// Started and Ended are PostgreSQL's times.
	Started, Ended time.Time
}

// traced is nil where nobody asks for spans, and for jobs without a trace.
func (s *Store) traced(made TracedAttempt, traceparent *string, started *time.Time) *TracedAttempt {
	if !s.tracing || traceparent == nil || started == nil {
		return nil
	}
	made.Traceparent, made.Started = *traceparent, *started
	return &made
}

// tracedRow is traced for an attempt whose row is locked. A job that was not running
// has no attempt that could have ended.
func (s *Store) tracedRow(row *lockedRow) *TracedAttempt {
	if row.LeaseID == nil {
		return nil
	}
	return s.traced(TracedAttempt{
		Job: row.ID, Tenant: row.TenantID, Type: row.Type, Queue: row.Queue, Attempt: row.Attempt, Ended: row.Now,
	}, row.Traceparent, row.StartedAt)
}

// changesPattern finds what a statement changes: in ours each part of one begins a line.
var changesPattern = regexp.MustCompile(`(?m)^\s*(INSERT|UPDATE|DELETE)( INTO| FROM)? ([a-z_]+)`)

// statementName names a statement's span by what its last part changes, such as
// "UPDATE jobs", else by its first word: nearly all begin WITH.
func statementName(sql string) string {
	if changes := changesPattern.FindAllStringSubmatch(sql, -1); len(changes) > 0 {
		last := changes[len(changes)-1]
		return last[1] + " " + last[3]
	}
	first, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	return strings.ToUpper(first)
}
