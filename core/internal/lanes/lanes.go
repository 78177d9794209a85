// Package lanes has the lanes: how they are created within a tenant's bounds, and deleted when they are no longer used.
package lanes

import "github.com/forgequeue/forgequeue/core/internal/store"

// Lanes has the statements.
type Lanes struct{ *store.Store }
