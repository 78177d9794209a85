// Package amend changes jobs that wait: some of their fields, their queue, or all that a new submit with their dedupe_key says.
//
// A job keeps its place, by the time since which it waits, unless its key takes turns or has a limit: such a job comes to the gate
// again. Against a claim, which also locks the row, one of the two wins.
package amend
