//go:build mutant_reaper_last

package queue

import "github.com/forgequeue/forgequeue/core/internal/job"

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// The reaper queues a job again on its last attempt too.
func reapedFacts(row *lockedRow) job.Facts {
	facts := row.facts()
	facts.MaxAttempts = facts.Attempt + 1
	return facts
}
