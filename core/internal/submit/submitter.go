package submit

import (
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Submitter has the statements.
type Submitter struct {
	*store.Store
	counts *usage.Counts
	edges  *dependency.Edges
}

// New makes them.
func New(s *store.Store, counts *usage.Counts, edges *dependency.Edges) *Submitter {
	return &Submitter{s, counts, edges}
}
