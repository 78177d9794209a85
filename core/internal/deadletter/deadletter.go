package deadletter

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Letters has the statements.
type Letters struct {
	*store.Store
	counts *caps.Counts
	reads  *read.Reader
	edges  *dependency.Edges
	gates  *gate.Gate
	// retention is the retention of dead letters; 0 is for ever.
	retention time.Duration
}

// New makes them, with their retention; 0 is for ever.
func New(s *store.Store, counts *caps.Counts, reads *read.Reader, edges *dependency.Edges, gates *gate.Gate, retention time.Duration) *Letters {
	return &Letters{s, counts, reads, edges, gates, retention}
}
