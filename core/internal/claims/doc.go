// Package claims leases jobs to workers, and takes back what becomes of the leases.
//
//	Claim ─▶ combine those for the same lanes ─▶ plan, in memory ─▶ lease: the statements ─▶ divide
//	  ▲                                                                                        │
//	  └── parked, until a wake-up of package publish, or a poll for one that was lost          ▼
//	Outcomes ◀── End, Heartbeat, GiveBack, in group commits ◀──────────────────────────── a worker
package claims
