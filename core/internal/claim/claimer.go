package claim

import (
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Claimer has the statements.
type Claimer struct {
	*store.Store
	counts *caps.Counts
}

// New makes them.
func New(s *store.Store, counts *caps.Counts) *Claimer { return &Claimer{s, counts} }
