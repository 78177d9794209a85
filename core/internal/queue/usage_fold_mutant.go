//go:build mutant_fold

package queue

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// Everything that can be seen is folded, up to the highest number given out:
// what has a lower number and commits later is lost.
const foldBoundSQL = `pg_snapshot_xmax(pg_current_snapshot())`
