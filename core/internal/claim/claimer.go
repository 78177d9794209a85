package claim

import (
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Claimer has the statements.
type Claimer struct {
	*store.Store
	counts *caps.Counts
	gates  *gate.Gate
}

// New makes them.
func New(s *store.Store, counts *caps.Counts, gates *gate.Gate) *Claimer {
	return &Claimer{s, counts, gates}
}
