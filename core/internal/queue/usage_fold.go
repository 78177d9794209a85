//go:build !mutant_fold

package queue

// foldBoundSQL: credits of transactions older than this can be folded into the
// log. Every such transaction has ended, so none of its credits is still to come.
const foldBoundSQL = `pg_snapshot_xmin(pg_current_snapshot())`
