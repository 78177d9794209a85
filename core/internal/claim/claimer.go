package claim

import (
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Claimer has the statements.
type Claimer struct {
	*store.Store
	counts *usage.Counts
}

// New makes them.
func New(s *store.Store, counts *usage.Counts) *Claimer { return &Claimer{s, counts} }
