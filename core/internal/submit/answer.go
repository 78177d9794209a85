package submit

import (
	"github.com/forgequeue/forgequeue/core/internal/amend"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Answer is what became of one submission.
type Answer struct {
	// Batch is the submission's.
	Batch bool
	// Jobs has a result for each job, in the order submitted; none where Replayed.
	Jobs []JobResult
	// Problem says why nothing was accepted: a single job or an atomic batch is refused,
	// or the Idempotency-Key was used for another request.
	Problem *problem.Problem
	// Workflow is the submission's as it is now; nil for none.
	Workflow *api.Workflow
	// Warnings are the submission's.
	Warnings []string
	// Saved is the response that is saved for the Idempotency-Key; nil where none is.
	Saved *Response
	// Replayed: Saved is an earlier request's, and nothing was stored.
	Replayed bool
	// Ready are the jobs that can now be claimed.
	Ready []jobs.Ready
	// Amended are live jobs that were replaced.
	Amended []amend.Amended
	// Accepted counts the jobs that were stored.
	Accepted int
	// Scheduled says that a job waits for its time.
	Scheduled bool
}

// JobResult is what became of one job of a submission.
type JobResult struct {
	// Row is the stored job, without its payload; nil where it is refused.
	Row *read.Row
	// Deduplicated: Row is the live job that has the dedupe_key already.
	Deduplicated bool
	// Replaced: it has what the submission says now.
	Replaced bool
	// amended is what became of it then; only the last one that replaced it has it.
	amended *amend.Amended
	// Refused says why the job was not stored.
	Refused *problem.Problem
}

// newAnswer sums up the results of a submission's jobs.
func newAnswer(s *Submission, results []JobResult) Answer {
	made := Answer{Batch: s.Batch, Jobs: results, Warnings: s.Warnings}
	for i := range results {
		r := &results[i]
		if r.Refused != nil && made.Problem == nil && (s.Atomic || !s.Batch) {
			made.Problem = r.Refused
		}
		if r.amended != nil {
			made.Amended = append(made.Amended, *r.amended)
		}
		if r.Row == nil || r.Deduplicated {
			continue
		}
		made.Accepted++
		switch r.Row.State {
		case api.StateQueued:
			if !r.Row.AtGate {
				made.Ready = append(made.Ready, jobs.Ready{Lane: r.Row.LaneID, Priority: r.Row.Priority, At: store.OrElse(r.Row.Turn, r.Row.CreatedAt)})
			}
		case api.StateScheduled:
			made.Scheduled = true
		}
	}
	return made
}

// isSaved says whether the response is saved for the Idempotency-Key: that of a refused
// submission is not, a batch's is as soon as one of its jobs was accepted.
func (a *Answer) isSaved() bool {
	if a.Problem != nil {
		return false
	}
	for i := range a.Jobs {
		if a.Jobs[i].Row != nil {
			return true
		}
	}
	return false
}
