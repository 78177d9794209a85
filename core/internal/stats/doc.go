// Package stats counts what jobs do, by tenant, queue and minute, for charts.
//
//	publish  ──Record──▶ JobRecorder ──Append, each 5 s────────▶ job_stats
//	                                                              grain 0: part of a minute, as a core appended it
//	                                                              grain 1: a minute, two minutes later
//	                                                              grain 2: an hour, two days later; kept 90 days
//
// Rows are appended and never updated: a roll-up deletes rows and inserts their sum in one statement, and a read sums
// whatever is there. So it does not matter how many cores append or roll up at once, or where one stops.
//
// limit_stats has the use of limits in the same way: of a cap the largest of a minute instead of a sum, and what was
// refused. It costs no read: the use of a cap is known where a submit or a claim counts under it. Gateways decide rates:
// each reports every twenty seconds what it has admitted and refused, and it counts for the minute in which it is appended.
//
// The counts are for charts. What a core that was killed had not appended yet is missing; package ledger has the
// exact numbers.
package stats
