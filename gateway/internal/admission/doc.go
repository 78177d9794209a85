// Package admission decides how much a caller may, and is the only package of
// the gateway that talks to Redis. Redis holds nothing that may not be lost: its
// loss makes revocations slower to arrive, and limits this gateway's own for a
// time; it is never an error.
//
//	IPLimit               before anybody is known: by address, in the process
//	NewRequest            who takes how much of which buckets, by the limits in force
//	Limiter.Admit         all buckets and cap hints in one script (limiter.lua), or,
//	                      without Redis, by the same arithmetic in the process (gcra.go)
//	SetHeaders            what the caller is told of it
//
// What Redis has, each key with a TTL:
//
//	fq:{tenant}:rate:tr, :tj            buckets of a tenant, by request and by job,
//	fq:{tenant}:rate:cr:KEY, :cj:KEY    of a credential,
//	fq:{tenant}:rate:ur:USER, :uj:USER  of a user: until they are full again
//	fq:{tenant}:full:t, :u:USER         a cap is full: 250 ms
//	fq:gateways                         who shares the rates: 5 s
//	fq:{gateway-ID}:probe               that Redis can write: milliseconds
package admission
