// Package jobs has the statements of a live job between its submit and its end: heartbeat, finish,
// reap, promote. Package read has those that read, package ended those on ended jobs, packages submit and claim have the first
// two steps. Every step of a job's life is one file and, where it can be, one statement.
//
//	submit ──▶ scheduled ──promote──▶ queued ──claim──▶ running ──complete──▶ finished_jobs
//	   │            ▲                   ▲ ▲               │ │ │
//	   └────────────┼───────────────────┘ │   heartbeat ──┘ │ └─ outcome: fail, snooze, release
//	                └── finish: backoff ──┴── finish ◀──────┴─ reap: the lease ran out
//	                                                │
//	                                                └──▶ dead_letters, attempts
//
// What holds for all of them:
//
//   - Everything that ends an attempt or a job, except a complete, goes through finish: the verdict
//     is of the transition table in package job, and one place moves the row, gives counts back and
//     records the attempt. Completes have a statement of their own, the fastest.
//   - PostgreSQL's clock decides (statement_timestamp(), never now(), which is the
//     transaction's start and does not advance during a lock wait). Durations
//     travel as intervals, ids and nonces as parameters.
//   - Every write of a lease holder names its whole lease, see heldSQL. No row
//     means that nothing changed.
//   - Rows are locked in the order of their ids, so two cores never deadlock.
//   - Names are unqualified, and no statement spans two schemas: a schema is a cell.
//   - A method that touches one tenant's rows takes its tenant.ID right after the
//     context. Those that cross tenants say so: Submit, Claim, Heartbeat, End, Reap,
//     Promote work on flushes of many tenants, and each row is matched by its own.
package jobs
