package hop

import (
	"encoding/json"

	"github.com/forgequeue/forgequeue/shared/api"
)

// DirectoryRequest asks the home cell's core what has changed in the directory for a cell.
type DirectoryRequest struct {
	// Cell is the cell that asks, Installation the id that its database has of the installation.
	Cell         string `json:"cell"`
	Installation string `json:"installation"`
	// Since is the version up to which the cell has copied the changes, 0 for none.
	Since int64 `json:"since"`
	// WaitMS is how long the answer may wait for a change, at most MaxDirectoryWait.
	WaitMS int64 `json:"wait_ms,omitzero"`
}

// DirectoryChanges are plans, tenants and keys as they are now, of those that have changed.
type DirectoryChanges struct {
	// Version is the version up to which these are all changes.
	Version int64 `json:"version"`
	// Reset says that the directory is older than what was copied of it, as after the restore of a backup: the changes are
	// the first of all.
	Reset   bool              `json:"reset,omitzero"`
	Plans   []api.Plan        `json:"plans,omitzero"`
	Tenants []DirectoryTenant `json:"tenants,omitzero"`
	// Keys are rows as PostgreSQL wrote them.
	Keys []json.RawMessage `json:"keys,omitzero" swaggertype:"array,object"`
}

// DirectoryTenant is a tenant of the cell.
type DirectoryTenant struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Plan      string          `json:"plan"`
	Weight    int             `json:"weight"`
	Overrides json.RawMessage `json:"overrides" swaggertype:"object"`
	CreatedAt api.Time        `json:"created_at"`
	// Deleting: its deletion was requested. Each cell deletes the data that it has.
	Deleting bool `json:"deleting,omitzero"`
}
