package queue

import (
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Jobs has the statements.
type Jobs struct {
	*store.Store
	counts *usage.Counts
	// attempts says that attempts which end are told of.
	attempts bool
}

// New makes them. Attempts asks for what is told of each attempt that ends.
func New(s *store.Store, counts *usage.Counts, attempts bool) *Jobs {
	return &Jobs{s, counts, attempts}
}
