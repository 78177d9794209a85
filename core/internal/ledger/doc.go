// Package ledger keeps exact counts of jobs by tenant and day, for bills.
//
//	jobs, finished_jobs, dead_letters ─┐ what is there
//	                                   ├─ one snapshot ──▶ ledger, ledger_days: a day is closed, once
//	ledger_entries ────────────────────┘ what is no longer there
//
// A day is counted from the tables themselves when it is over, and no transaction is left that began on it. A statement
// that takes an ended job out of the tables (a redrive, a discard, a delete) appends in the same transaction what the job
// counts for. So whatever commits beside the count, the count's snapshot has either the job or its entry: nothing is
// counted twice or left out, and no lock is needed. Entries of closed days mean nothing.
//
// Each event counts on the day on which it happened, of UTC and by PostgreSQL's clock:
//
//	accepted     created_at        completed, cancelled   finished_at
//	dead_letter  died_at           redriven, discarded    the statement's time
//
// so that over all days
//
//	jobs that have not ended = accepted - completed - cancelled - dead_letter + redriven
//	dead letters that are kept = dead_letter - redriven - discarded
//
// Submits, claims and completes write nothing for it. An attempt that fails appends how long it ran: the row of an attempt
// does not say whose type and user it is of, and goes with its job.
package ledger
