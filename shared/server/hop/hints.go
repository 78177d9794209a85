package hop

// Channels of Redis pub/sub. Every message is a hint: losing it costs a poll.
const (
	// ChannelKeyRevoked carries a key id.
	ChannelKeyRevoked = "fq:hint:key-revoked"
	// ChannelLimitsChanged carries a LimitsChanged: gateways read limits again.
	ChannelLimitsChanged = "fq:hint:limits-changed"
	// ChannelTypesChanged carries a TypesChanged: gateways read a tenant's types again.
	ChannelTypesChanged = "fq:hint:types-changed"
	// ChannelReady, with ":" and the identity of their database, carries the hints of cores to each other.
	ChannelReady = "fq:hint:ready"
)

// LimitsChanged says whose limits are no longer what they were: one tenant's, or
// those of all tenants on a plan.
type LimitsChanged struct {
	Tenant string `json:"tenant,omitzero"`
	Plan   string `json:"plan,omitzero"`
}

// TypesChanged says whose types have changed, and the version of all of them since.
type TypesChanged struct {
	Tenant  string `json:"tenant"`
	Version int64  `json:"version"`
}
