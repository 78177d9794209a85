// Package workers has the registered workers.
package workers

import "github.com/forgequeue/forgequeue/core/internal/store"

// Workers has the statements.
type Workers struct{ *store.Store }
