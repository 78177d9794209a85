// Package budget counts what jobs use of the tenant's budgets: tokens, money, calls of a provider.
//
// A budget has an amount for a time. A claim reserves what a job may cost, under the tenant's claim lock, in the transaction that
// leases the job. The outcome settles it: what was used counts instead, less or more, from the start of the attempt on. So in any
// time of the budget, what is reserved and what is used together are at most its amount and what running jobs overdraw.
//
// The time is a window of the calendar, or a time that slides. The latter is counted in 60 parts: what an attempt uses counts in
// the part in which it started, and is free again when the whole part is over for as long as the time. A token bucket would let
// twice the amount through in its time (a full bucket, and what flows in), and a settlement could not be exact: what comes back
// after the bucket was full in between would be there twice.
//
//	budget_log          seq 7: parts 12:00:00 80, 12:00:01 40 …   the newest row of a budget's subject …
//	budget_settlements  started 12:00:00, reserved 50, used 20    … and what attempts have used that ended since
//	counted             12:00:00 50, 12:00:01 40
//
// A settlement is appended without a lock, in the statement that ends the attempt. The next claim under the lock has it in its
// row, and deletes it. What is in a row is never changed: an old snapshot makes no claim slower.
//
// Jobs that a budget cannot pay wait in a line before the ready index, see package gate: a claim meets no more of them than become
// too dear between the two.
package budget
