package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/api"
)

// completeChained stores an answer that names the jobs which the outcome has submitted.
var completeChained = completion{sql: completeChainedSQL + loggedSQL + finishedSQL, logged: completeChainedSQL + loggedSQL + finishedSQL, parents: true}

// Chained is a complete within a transaction that also stores the jobs that it submits.
type Chained struct {
	Ended

	jobs *Jobs
	rows []completed
}

// CompleteIn completes a job in a transaction. submitted are the ids of the jobs that the transaction stores: a repeat of the outcome
// gets them again. It gives nil where the lease is not held: the transaction has to be rolled back, and AnswerUnheld knows the answer.
func (s *Jobs) CompleteIn(ctx context.Context, tx pgx.Tx, ending *Ending, submitted []string) (*Chained, error) {
	args := completeArgs(completeChained, []*Ending{ending})
	answer := string(store.JSON(chainedAnswer{submitted}))
	args["answers"] = []*string{&answer}
	rows, err := tx.Query(ctx, completeChained.sql, args)
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, scanCompletedLogged)
	if err != nil {
		return nil, fmt.Errorf("jobs: complete: %w", err)
	}
	if len(found) == 0 {
		return nil, nil //nolint:nilnil // as said
	}
	made := &Chained{Ended: s.endedOf(&found[0]), jobs: s, rows: found}
	made.Outcome.Submitted = submitted
	return made, nil
}

// chainedAnswer is what is stored of the answer: the rest is known by the job.
type chainedAnswer struct {
	Submitted []string `json:"submitted"`
}

const chainedAnswerSQL = `
UPDATE finished_jobs SET outcome_answer = @answer::json WHERE id = @id AND finished_at = @finished_at`

// Submitted says which jobs there are now: of one with a dedupe_key that a live job has, that job.
func (c *Chained) Submitted(batch *pgx.Batch, ids []string) {
	if slices.Equal(ids, c.Outcome.Submitted) {
		return
	}
	c.Outcome.Submitted = ids
	batch.Queue(chainedAnswerSQL, store.Args{"answer": string(store.JSON(chainedAnswer{ids})), "id": c.rows[0].ID, "finished_at": c.rows[0].FinishedAt})
}

// Committed is called after the commit.
func (c *Chained) Committed() { c.jobs.completed(completeChained, c.rows) }

// AnswerUnheld answers the holder of a lease that is not held: the same answer again, a conflict, a lost lease, or not found.
func (s *Jobs) AnswerUnheld(ctx context.Context, ending *Ending) Ended {
	ended := make([]Ended, 1)
	s.answerUnheld(store.WithClass(ctx, store.ClassOutcomes), []Ending{*ending}, []int{0}, ended)
	return ended[0]
}

// endedOf is the result of a complete.
func (s *Jobs) endedOf(row *completed) Ended {
	ended := Ended{Outcome: completedOutcome(row.ID, row.Attempt, row.Epoch), Kind: api.KindComplete, Change: row.change(), EndToEnd: row.FinishedAt.Sub(row.CreatedAt)}
	if row.StartedAt != nil {
		ended.Execution = row.FinishedAt.Sub(*row.StartedAt)
	}
	ended.Attempt = s.attempt(EndedAttempt{
		Job: row.ID, Tenant: row.TenantID, Type: row.Type, Queue: row.Queue, Attempt: row.Attempt, Epoch: row.Epoch, Ended: row.FinishedAt,
	}, row.CorrelationID, row.Traceparent, row.StartedAt)
	return ended
}
