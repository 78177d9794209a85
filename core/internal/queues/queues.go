// Package queues has the queues: their settings, their depths, and how they are deleted.
package queues

import "github.com/forgequeue/forgequeue/core/internal/store"

// Queues has the statements.
type Queues struct {
	*store.Store
	// Gates is called after each commit that has keys checked again.
	Gates interface{ Appended() }
}
