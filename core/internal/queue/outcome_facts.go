//go:build !mutant_cancel

package queue

import "github.com/forgequeue/forgequeue/core/internal/job"

// endingFacts are what a verdict depends on when the holder ends its attempt; that
// the owner wants the job no more is one of them, whatever the holder says.
func endingFacts(row *lockedRow, ending *Ending) job.Facts {
	facts := row.facts()
	facts.Permanent, facts.Delayed = ending.Permanent, ending.Delay > 0
	return facts
}
