// Package up runs everything in one process: PostgreSQL and Redis as children,
// core and the gateway, a sample worker with a few jobs.
//
//	lock the data folder ▶ PostgreSQL ▶ Redis ▶ migrate ▶ core, gateway ▶ keys ▶ sample worker ▶ ready
//
// It stops in the opposite order, so that no part loses one that it depends on.
package up
