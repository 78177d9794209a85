// Package retention creates the partitions by day, drops those past their retention, and deletes
// rows of plain tables.
package retention

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Periods are the retention of ended things; 0 is for ever.
type Periods struct {
	// Finished is for completed and cancelled jobs, in whole days.
	Finished time.Duration
	// DeadLetters is for dead letters, the attempts of all jobs, and redrives that
	// have ended.
	DeadLetters time.Duration
	// Audit is for audit entries.
	Audit time.Duration
}

// Forgetter drops and deletes what is past its retention.
type Forgetter struct {
	*store.Store
	periods Periods
}

// FinishedRetention is the retention of finished jobs; 0 is for ever.
func (s *Forgetter) FinishedRetention() time.Duration { return s.periods.Finished }

// New makes one.
func New(s *store.Store, periods Periods) *Forgetter { return &Forgetter{s, periods} }
