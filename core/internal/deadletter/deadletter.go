package deadletter

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Letters has the statements.
type Letters struct {
	*store.Store
	counts *usage.Counts
	jobs   *queue.Jobs
	edges  *dependency.Edges
	// retention is the retention of dead letters; 0 is for ever.
	retention time.Duration
}

// New makes them, with their retention; 0 is for ever.
func New(s *store.Store, counts *usage.Counts, jobs *queue.Jobs, edges *dependency.Edges, retention time.Duration) *Letters {
	return &Letters{s, counts, jobs, edges, retention}
}
