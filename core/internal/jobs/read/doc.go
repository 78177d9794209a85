// Package read has the statements that read jobs, live, ended and dead: one, a list, the attempts, the parents, the
// queue position, and what a caller that waits for a change looks at. They change nothing.
package read

import "github.com/forgequeue/forgequeue/core/internal/store"

// Reader has the statements.
type Reader struct{ *store.Store }
