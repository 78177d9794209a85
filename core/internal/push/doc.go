// Package push executes the jobs of queues in push mode: core claims them itself
// and calls the queue's target URL with each.
//
//	claim (Room for each queue) ─▶ admit ─▶ call, twice more at most ─▶ judge ─▶ End
//	   ▲        │                    │            │       ▲
//	   │   breaker open,        no room after     │   heartbeats; the call's context ends
//	   │   slots taken: 0       all: given back   │   with the lease, a cancel, the timeout
//	   └────────────── a slot is free ◀───────────┘
//
// A job spends an attempt when its destination was called and did not take it. It
// spends none when the destination is known to be down: then the breaker of
// (tenant, destination) is open, and Room keeps its queues from being claimed;
// what was claimed a moment before is given back, and so are the calls that only
// try whether the destination is back.
package push
