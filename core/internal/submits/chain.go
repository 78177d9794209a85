package submits

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// errUnheld rolls a chained outcome back whose lease is not held.
var errUnheld = errors.New("submits: the lease is not held")

// Complete completes a job and stores the jobs of the call, in one transaction: all of it, or nothing. Where a job is refused, so is the
// outcome, with the refusal, and the lease stays. A repeat gets the first answer, with the ids of then. The call is of the job's
// tenant.
func (s *Submits) Complete(ctx context.Context, ending jobs.Ending, call Call) jobs.Ended {
	call.Batch = true // not atomic: each job has its own refusal, and the first one rolls all of it back
	calls, answers := []Call{call}, make([]Answer, 1)
	s.judgeCosts(ctx, calls, answers)
	lanes := s.lanesOf(ctx, calls, answers)
	if err := answers[0].Err; err != nil {
		if again := s.store.Jobs.AnswerUnheld(ctx, &ending); again.Replayed { // it was accepted then
			return again
		}
		return jobs.Ended{Err: err}
	}
	s.refuseLate(ctx, &calls[0], lanes[0])
	submission := s.submission(&calls[0], lanes[0])
	ids := make([]string, len(call.IDs))
	for i, id := range call.IDs {
		ids[i] = id.String()
	}
	var made *jobs.Chained
	var stored []submit.Answer
	var err error
	for range store.DeadlockTries {
		made, stored, err = s.completeOnce(ctx, &ending, submission, ids)
		if !store.Deadlocked(err) {
			break
		}
	}
	switch {
	case errors.Is(err, errUnheld):
		return s.store.Jobs.AnswerUnheld(ctx, &ending)
	case err != nil:
		return jobs.Ended{Err: err}
	}
	made.Committed()
	s.publisher.Publish(ctx, publish.Changes{Endings: []jobs.Ending{ending}, Ended: []jobs.Ended{made.Ended}, Stored: stored})
	return made.Ended
}

func (s *Submits) completeOnce(ctx context.Context, ending *jobs.Ending, submission submit.Submission, ids []string) (made *jobs.Chained, stored []submit.Answer, err error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	all := []submit.Submission{submission}
	locks := s.store.Submits.Locks(all)
	err = s.store.InShortTx(ctx, func(first *pgx.Batch) {
		store.QueueTakesJobs(first, []tenant.ID{submission.Tenant})
		locks.Lock(ctx, first)
	}, func(tx pgx.Tx) (last *pgx.Batch, err error) {
		if made, err = s.store.Jobs.CompleteIn(ctx, tx, ending, ids); err != nil {
			return nil, err
		}
		if made == nil {
			return nil, errUnheld
		}
		// the completed job has left the counts that its followers come under
		if err := locks.Refresh(ctx, tx); err != nil {
			return nil, err
		}
		stored, last, err = locks.Store(ctx, tx, all)
		if err != nil {
			return nil, err
		}
		if refused := chainRefusal(&stored[0]); refused != nil {
			return nil, refused
		}
		made.Submitted(last, submittedIDs(&stored[0]))
		return last, nil
	})
	if err = locks.Committed(err); err != nil {
		return nil, nil, fmt.Errorf("submits: complete: %w", err)
	}
	return made, stored, nil
}

// submittedIDs are the jobs that were stored, or were there already by their dedupe_key.
func submittedIDs(answer *submit.Answer) []string {
	ids := make([]string, len(answer.Jobs))
	for i := range answer.Jobs {
		if row := answer.Jobs[i].Row; row != nil {
			ids[i] = row.ID.String()
		}
	}
	return ids
}

// chainRefusal names the first job that was refused, or was there already.
func chainRefusal(answer *submit.Answer) *problem.Problem {
	for i := range answer.Jobs {
		result := &answer.Jobs[i]
		if result.Refused == nil {
			continue
		}
		p := *result.Refused
		field := fmt.Sprintf("submit[%d]", i)
		if len(p.Errors) == 0 {
			p.Errors = []problem.FieldError{{Field: field, Message: strings.TrimSuffix(p.Detail, ".")}}
		} else {
			errors := make([]problem.FieldError, len(p.Errors))
			for j, one := range p.Errors {
				errors[j] = problem.FieldError{Field: field + "." + one.Field, Message: one.Message}
			}
			p.Errors = errors
		}
		return &p
	}
	return answer.Problem
}
