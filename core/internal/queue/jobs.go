package queue

import (
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Jobs has the statements.
type Jobs struct {
	*store.Store
	counts *usage.Counts
	edges  *dependency.Edges
	// logAttempts says that ended attempts are logged.
	logAttempts bool
}

// New makes them. attempts asks for an EndedAttempt of each attempt that ends.
func New(s *store.Store, counts *usage.Counts, edges *dependency.Edges, attempts bool) *Jobs {
	return &Jobs{s, counts, edges, attempts}
}
