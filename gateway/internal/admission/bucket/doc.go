// Package bucket decides requests by token buckets that all gateways share in Redis. It knows neither tenants nor jobs: a
// request names its buckets, and what it takes from each.
//
//	request.go   the buckets of a request, and the keys that refuse it while they exist
//	limiter.go   Admit: withoutReading? ─▶ Redis ─▶ else in the process
//	flush.go     requests that wait for Redis share one call
//	limiter.lua  all buckets of a request at once; script.go calls it
//	gcra.go      the same arithmetic in Go, and the model that the script is held to
//	local.go     decides by it without Redis, with this gateway's share of each rate
//	replicas.go  counts the gateways, probe.go finds Redis again
//
// All data in Redis may be lost: that is never an error.
package bucket
