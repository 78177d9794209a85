package schedule

import (
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
)

// Schedules has the statements.
type Schedules struct {
	*store.Store
	submits *submit.Submitter
}

// New makes them.
func New(s *store.Store, submits *submit.Submitter) *Schedules { return &Schedules{s, submits} }
