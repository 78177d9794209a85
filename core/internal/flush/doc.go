// Package flush has core's group commits: concurrent submits, outcomes and heartbeats share one
// statement. Guarded submits have a group for each tenant.
package flush
