// Package admission decides how much a caller may do: who pays for a request, for what, and by which limits. It and its
// package bucket are the only ones of the gateway that use Redis. All data in Redis may be lost: without it,
// revocations arrive later, and each gateway applies its own limits for a time;
// that is never an error.
//
//	Addresses             before authentication: by address, in the process
//	Limiter.Charge        decides a request, once, for the caller's key
//	NewRequest            the buckets and the cost for each, by the limits in force
//	bucket                all buckets and cap hints in one script, or in the process
//	Limiter.NoteCaps      hints that a cap is full, which refuse without core
//	SetHeaders            the header fields of the response
//	Limiter.Report        what was admitted and refused, to core, for charts
//	Redis.Subscribe       notifications of revoked keys and changed limits
//
// What Redis has, each key with a TTL:
//
//	fq:{tenant}:owed:tr, :tj            buckets of a tenant, by request and by job,
//	fq:{tenant}:owed:cr:KEY, :cj:KEY    of a credential,
//	fq:{tenant}:owed:ur:USER, :uj:USER  of a user: until they are full again
//	fq:{tenant}:full:t, :u:USER         a cap is full: 250 ms
//	fq:gateways                         the gateways that share the rates: 5 s
//	fq:{gateway-ID}:probe               that Redis can write: milliseconds
package admission
