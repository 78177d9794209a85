package submit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// errUnheld rolls a Chain back whose lease is not held.
var errUnheld = errors.New("submit: the lease is not held")

// Chain ends an attempt by a complete or a wait, stores the jobs of a submission of its tenant, and sends the chain's signals, in one
// transaction. The first refusal, which names its job or signal, undoes all of it. made.Committed has to be called; made is nil where
// the lease is not held.
func (s *Submitter) Chain(ctx context.Context, by *jobs.Jobs, ending *jobs.Ending, submission *Submission, chain jobs.Chain) (made *jobs.Chained, stored Answer, err error) {
	for range store.DeadlockTries {
		made, stored, err = s.chainOnce(ctx, by, ending, submission, chain)
		if !store.Deadlocked(err) {
			break
		}
	}
	if errors.Is(err, errUnheld) {
		return nil, Answer{}, nil
	}
	return made, stored, err
}

func (s *Submitter) chainOnce(ctx context.Context, by *jobs.Jobs, ending *jobs.Ending, submission *Submission, chain jobs.Chain) (made *jobs.Chained, stored Answer, err error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	all := []Submission{*submission}
	locks := s.Locks(all)
	err = s.InShortTx(ctx, func(first *pgx.Batch) {
		store.QueueTakesJobs(first, []tenant.ID{submission.Tenant})
		locks.Lock(ctx, first)
		chain.QueueLock(first, ending.Lease)
	}, func(tx pgx.Tx) (last *pgx.Batch, err error) {
		if made, err = by.EndIn(ctx, tx, ending, chain); err != nil {
			return nil, err
		}
		if made == nil {
			return nil, errUnheld
		}
		if len(submission.Jobs) == 0 {
			return nil, nil //nolint:nilnil // there is nothing more to send
		}
		// the completed job has left the counts that its followers come under
		if err := locks.Refresh(ctx, tx); err != nil {
			return nil, err
		}
		answers, last, err := locks.Store(ctx, tx, all)
		if err != nil {
			return nil, err
		}
		stored = answers[0]
		if refused := chainRefusal(&stored); refused != nil {
			return nil, refused
		}
		made.Submitted(last, submittedIDs(&stored))
		return last, nil
	})
	if err = locks.Committed(err); err != nil {
		return nil, stored, fmt.Errorf("submit: chain: %w", err)
	}
	return made, stored, nil
}

// submittedIDs are the jobs that were stored, or were there already by their dedupe_key.
func submittedIDs(answer *Answer) []string {
	ids := make([]string, len(answer.Jobs))
	for i := range answer.Jobs {
		if row := answer.Jobs[i].Row; row != nil {
			ids[i] = row.ID.String()
		}
	}
	return ids
}

// chainRefusal names the first job that was refused, or was there already.
func chainRefusal(answer *Answer) *problem.Problem {
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
