// Package publish has everything that happens after a commit. A statement returns what it did to jobs; its caller
// publishes that as one value, and nobody else wakes, counts or tells:
//
//	submit, outcome, duty ──commit──▶ Publish(Changes)
//	                                    ├─▶ parked claims, here and (by a hint) in other cores
//	                                    ├─▶ callers that wait for a job's change
//	                                    ├─▶ metrics, stats, log lines and spans of attempts
//	                                    └─▶ the duties that wait for times: starts, deadlines, ends of leases
//
// All of it is a hint: after a loss the next refresh or poll finds the same jobs.
package publish
