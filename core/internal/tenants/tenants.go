// Package tenants has the tenants, the plans and the limits: how they are created, changed and copied to other cells,
// and how a tenant's data is removed.
package tenants

import "github.com/forgequeue/forgequeue/core/internal/store"

// Tenants has the statements.
type Tenants struct{ *store.Store }
