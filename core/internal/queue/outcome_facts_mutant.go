//go:build mutant_cancel

package queue

import (
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// That a job was cancelled is forgotten when its holder fails: it is tried again.
func endingFacts(row *lockedRow, ending *Ending) job.Facts {
	facts := row.facts()
	facts.Permanent, facts.Delayed = ending.Permanent, ending.Delay > 0
	if ending.Kind == api.KindFail {
		facts.CancelRequested = false
	}
	return facts
}
