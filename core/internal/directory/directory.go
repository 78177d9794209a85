// Package directory has what changes rarely: tenants, plans and limits, keys, queues with their
// settings, lanes and workers.
package directory

import "github.com/forgequeue/forgequeue/core/internal/store"

// Directory has the statements.
type Directory struct{ *store.Store }
