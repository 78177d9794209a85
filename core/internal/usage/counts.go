// Package usage counts jobs under caps. A count is the newest row of a log, plus the credits of
// jobs that have ended since; it grows only under its tenant's lock.
//
//	submit, claim ──▶ read under the lock ──▶ admit ──▶ append a row, which folds old credits
//	end of a job  ──▶ a credit, without any lock
//
// A Tally decides in memory. Counts that get a cap are backfilled; verify and recount compare
// them with the jobs.
package usage

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Counts has the statements.
type Counts struct {
	*store.Store
	checkTime time.Duration
}

// New makes them.
func New(s *store.Store) *Counts { return &Counts{s, checkTime} }
