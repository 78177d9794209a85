// Package tenant identifies tenants and their queues.
package tenant

import "github.com/google/uuid"

// ID is a tenant's id. Every method that touches one tenant's rows takes it
// right after the context; those that cross tenants say so in their name or
// first sentence.
type ID = uuid.UUID

// Platform is the owner of what belongs to no tenant: workers with a platform key. No tenant has
// this id.
//
//nolint:gochecknoglobals // a constant in all but the keyword: Go has no array constants
var Platform = uuid.Nil
