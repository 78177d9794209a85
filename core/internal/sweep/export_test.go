package sweep

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
)

// Answered sets when PostgreSQL last answered, and since when without an outage.
func (w *Workers) Answered(last, since time.Time) { w.answered, w.since = last, since }

// Store sets the store.
func (w *Workers) Store(store *cell.Cell) { w.store = store }
