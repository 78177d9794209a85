package jobs

import (
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/webhook"
)

// Jobs has the statements.
type Jobs struct {
	*store.Store
	counts *caps.Counts
	edges  *dependency.Edges
	hooks  *webhook.Hooks
	// logAttempts says that ended attempts are logged.
	logAttempts bool
}

// New makes them. attempts asks for an EndedAttempt of each attempt that ends.
func New(s *store.Store, counts *caps.Counts, edges *dependency.Edges, hooks *webhook.Hooks, attempts bool) *Jobs {
	return &Jobs{s, counts, edges, hooks, attempts}
}
