package submit

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

// Around is what else a transaction does that submits.
type Around struct {
	// First queues the statements that run before the tenants' locks are taken.
	First func(*pgx.Batch)
	// Choose gives the submissions, under the locks: of the tenants and under the caps of the
	// candidates, as many as it likes. ended says that it has ended jobs, whose room is then free.
	// It may run twice.
	Choose func(context.Context, pgx.Tx) (chosen []Submission, ended bool, err error)
	// Last queues the statements that are sent together with COMMIT. Its error undoes everything.
	Last func(*pgx.Batch, []Answer) error
}

// SubmitAround is Submit in a transaction that does more: all of it takes effect, or nothing. The
// answers are to what was chosen.
func (s *Submitter) SubmitAround(ctx context.Context, candidates []Submission, around Around) ([]Answer, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	answers, err := s.submitAround(ctx, candidates, around)
	for try := 1; store.Deadlocked(err) && try < store.DeadlockTries; try++ {
		answers, err = s.submitAround(ctx, candidates, around)
	}
	if err != nil {
		return nil, fmt.Errorf("submit: submit around: %w", err)
	}
	return answers, nil
}

func (s *Submitter) submitAround(ctx context.Context, candidates []Submission, around Around) (answers []Answer, err error) {
	err = s.underLockAfter(ctx, around.First, candidates, func(tx pgx.Tx, held held) (*pgx.Batch, error) {
		chosen, ended, err := around.Choose(ctx, tx)
		if err != nil {
			return nil, err
		}
		if ended && len(held.counts.Counts) > 0 {
			counts, err := readAgain(ctx, tx, candidates)
			if err != nil {
				return nil, err
			}
			*held.counts = *counts
		}
		answers = make([]Answer, len(chosen))
		// the jobs of a schedule come after none: there are no follow-ups
		batch, _, err := s.submitInRounds(ctx, tx, held, chosen, answers)
		if err == nil {
			err = around.Last(batch, answers)
		}
		return batch, err
	})
	return answers, err
}

// readAgain reads the counts once more in the transaction that holds the locks.
func readAgain(ctx context.Context, tx pgx.Tx, candidates []Submission) (*caps.Tally, error) {
	counts, err := caps.ReadUsage(ctx, tx, countsOf(candidates))
	if err != nil {
		return nil, err
	}
	if err := counts.EnsureRows(ctx, tx); err != nil {
		return nil, err
	}
	return counts, counts.Exact(ctx, tx, capsIn(candidates)...)
}
