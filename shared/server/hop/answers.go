package hop

import "github.com/forgequeue/forgequeue/shared/api"

// CancelResponse is the job, and whether its end was only asked for (it runs).
type CancelResponse struct {
	Job       api.JobSummary `json:"job"`
	Requested bool           `json:"requested,omitzero"`
}

// SignalList are the signals that a job was sent, by name.
type SignalList struct {
	Items []api.StoredSignal `json:"items"`
}

// CapsResponse tells the caps, with their use.
type CapsResponse struct {
	Caps []api.CapUse `json:"caps"`
	// Database is as api.SharedTime has it.
	Database float64 `json:"database"`
}

// KeyRecord is what the gateway needs to check a key and to act for it. A revoked
// or expired key is not found. Of a tenant, which has no key here, it has what is the tenant's.
type KeyRecord struct {
	KeyID string `json:"key_id"`
	Kind  string `json:"kind"`
	// SecretHMAC is HMAC-SHA-256 of the key's secret under the gateway's own
	// secret: core never sees a key, nor could it make one.
	SecretHMAC []byte    `json:"secret_hmac"`
	Tenant     string    `json:"tenant,omitzero"`
	User       string    `json:"user,omitzero"`
	Scopes     []string  `json:"scopes"`
	ExpiresAt  *api.Time `json:"expires_at,omitzero"`
	// ExpiresInMS is the time left to the key, by core's database: what decides,
	// because clocks differ.
	ExpiresInMS *int64    `json:"expires_in_ms,omitzero"`
	Plan        *api.Plan `json:"plan,omitzero"`
	// TenantName is the tenant's name.
	TenantName string `json:"tenant_name,omitzero"`
	// Overrides are the tenant's.
	Overrides *api.Overrides `json:"overrides,omitzero"`
	// SessionsEnded is how often all console sessions of the key were ended.
	SessionsEnded int64 `json:"sessions_ended,omitzero"`
	// TypesVersion is that of the tenant's types of jobs; 0 for a tenant that never had any.
	TypesVersion int64 `json:"types_version,omitzero"`
	// Cell is the cell of the tenant's jobs, "" for the home cell. Submits share requests within a cell.
	Cell string `json:"cell,omitzero"`
}

// TypeVersion is a version of a type, with its revision: see CheckedType.
type TypeVersion struct {
	Revision int64 `json:"revision"`
	api.JobType
}

// TypeDocuments are a tenant's types with their schemas.
type TypeDocuments struct {
	Types []api.JobType `json:"types"`
	// LeftOut counts those for which there was no room.
	LeftOut int `json:"left_out"`
}

// TypeSet is what a check needs to know of a tenant's types. Schemas are read one by one.
type TypeSet struct {
	// Version grows with each change of any of them.
	Version int64         `json:"version"`
	Types   []CheckedType `json:"types"`
}

// CheckedType is a type in its newest version.
type CheckedType struct {
	Type    string `json:"type"`
	Version int    `json:"version"`
	// Revision is of this version alone, among all of the tenant.
	Revision      int64               `json:"revision"`
	ChecksPayload bool                `json:"checks_payload,omitzero"`
	ChecksResults bool                `json:"checks_results,omitzero"`
	Defaults      api.JobTypeDefaults `json:"defaults,omitzero"`
	CreatedAt     api.Time            `json:"created_at"`
}
