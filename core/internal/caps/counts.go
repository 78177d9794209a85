// Package caps counts jobs under caps. A count is the newest row of a log, plus the credits of
// jobs that have ended since; it grows only under its tenant's lock.
//
//	submit, claim ──▶ read under the lock ──▶ admit ──▶ append a row, which folds old credits
//	end of a job  ──▶ a credit, without any lock
//
// A Tally decides in memory. Counts that get a cap are backfilled; verify and recount compare
// them with the jobs.
package caps

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Counts has the statements.
type Counts struct {
	*store.Store
	checkTime time.Duration
	// used hears of the use of caps; nil for nobody.
	used func([]Use)
}

// New makes them.
func New(s *store.Store) *Counts { return &Counts{Store: s, checkTime: checkTime} }

// OnUse sets what hears of the use of caps, after each commit that asked for room under them. Call it before the first.
func (s *Counts) OnUse(used func([]Use)) { s.used = used }

// ReportUse passes on the uses of a tally whose transaction has committed.
func (s *Counts) ReportUse(t *Tally) {
	if s.used != nil && len(t.Counts) > 0 {
		s.used(t.Uses())
	}
}
