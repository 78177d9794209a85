// Package push executes the jobs of queues in push mode: core claims them itself and calls the
// queue's target URL with each, or publishes it to a broker (package broker).
//
//	claim (capacity by queue) ─▶ admit ─▶ call, twice more at most ─▶ judge ─▶ End
//	   ▲        │                    │            │       ▲
//	   │   breaker open,        no capacity       │   heartbeats; the call's context ends
//	   │   slots taken: 0       left: returned    │   with the lease, a cancel, the timeout
//	   └────────────── a slot is free ◀───────────┘
//
// A job spends an attempt when its destination was called and did not accept it. It spends none
// while the breaker of (tenant, destination) is open: then the capacity of its queues is 0, jobs
// claimed just before are returned, and so are failed probes.
package push
