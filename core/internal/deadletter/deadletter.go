package deadletter

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/usage"
)

// Letters has the statements.
type Letters struct {
	*store.Store
	counts *usage.Counts
	jobs   *queue.Jobs
	// keep is how long one is kept; 0 is for ever.
	keep time.Duration
}

// New makes them. They are kept for so long; 0 is for ever.
func New(s *store.Store, counts *usage.Counts, jobs *queue.Jobs, keep time.Duration) *Letters {
	return &Letters{s, counts, jobs, keep}
}
