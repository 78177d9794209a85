package jobs

import (
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/webhook/events"
)

// Jobs has the statements.
type Jobs struct {
	*store.Store
	counts *caps.Counts
	edges  *dependency.Edges
	gates  *gate.Gate
	events *events.Events
	// logAttempts says that ended attempts are logged.
	logAttempts bool
	moved       store.MovedTenants
}

// New makes them. attempts asks for an EndedAttempt of each attempt that ends.
func New(s *store.Store, counts *caps.Counts, edges *dependency.Edges, gates *gate.Gate, hooked *events.Events, attempts bool) *Jobs {
	return &Jobs{Store: s, counts: counts, edges: edges, gates: gates, events: hooked, logAttempts: attempts}
}
