//go:build !mutant_reaper_last

package queue

import "github.com/forgequeue/forgequeue/core/internal/job"

// reapedFacts are what becomes of a lease that nobody kept: an attempt was spent,
// and it may have been the last (D6).
func reapedFacts(row *lockedRow) job.Facts { return row.facts() }
