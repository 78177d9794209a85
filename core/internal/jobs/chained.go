package jobs

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// completeChained stores an answer that names the jobs which the outcome has submitted.
var completeChained = completion{sql: completeChainedSQL + loggedSQL + finishedSQL, logged: completeChainedSQL + loggedSQL + finishedSQL, parents: true}

// Chain is what an outcome does besides, in its transaction.
type Chain struct {
	// Submitted are the ids of the jobs that the transaction stores: a repeat of the outcome gets them again.
	Submitted []string
	// Signals are those of other jobs of the tenant, and where User is not empty of that user only.
	Signals []ChainSignal
	User    string
}

// ChainSignal is a signal of another job. Data is JSON, nil for none.
type ChainSignal struct {
	Job  uuid.UUID
	Name string
	Data []byte
}

// SignalError says which signal of an outcome was refused, and why, as Signal does.
type SignalError struct {
	Index int
	Err   error
}

func (e *SignalError) Error() string { return fmt.Sprintf("signal %d: %v", e.Index, e.Err) }

// Unwrap gives why.
func (e *SignalError) Unwrap() error { return e.Err }

// Chained is a complete or a wait within a transaction that also stores what it submits and signals.
type Chained struct {
	Ended

	// Woken are the jobs that its signals have made ready.
	Woken []Ready

	jobs        *Jobs
	rows        []completed
	transitions []*transition
	woken       []promoted
}

// lockChainSQL locks jobs in the order in which all statements do.
const lockChainSQL = `
SELECT FROM jobs WHERE id = ANY(@ids::uuid[]) AND tenant_id = @tenant_id ORDER BY id FOR UPDATE`

// QueueLock queues the lock of the job of a lease and of those that its outcome signals, all at once: two outcomes that signal each
// other's jobs would deadlock. It is queued after the locks that submits take.
func (c *Chain) QueueLock(batch *pgx.Batch, lease job.Lease) {
	if len(c.Signals) == 0 {
		return
	}
	ids := []uuid.UUID{lease.Job}
	for i := range c.Signals {
		ids = append(ids, c.Signals[i].Job)
	}
	batch.Queue(lockChainSQL, store.Args{"ids": ids, "tenant_id": lease.Tenant})
}

// EndIn ends an attempt in a transaction, by a complete or a wait. It gives nil where the lease is not held: the transaction has to be
// rolled back, and AnswerUnheld knows the answer.
func (s *Jobs) EndIn(ctx context.Context, tx pgx.Tx, ending *Ending, chain Chain) (made *Chained, err error) {
	if ending.Kind == api.KindComplete {
		made, err = s.completeIn(ctx, tx, ending, chain.Submitted)
	} else {
		made, err = s.waitIn(ctx, tx, ending, chain.Submitted)
	}
	if err != nil || made == nil {
		return nil, err
	}
	return made, made.signal(ctx, tx, ending.Lease.Tenant, chain)
}

func (s *Jobs) completeIn(ctx context.Context, tx pgx.Tx, ending *Ending, submitted []string) (*Chained, error) {
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

func (s *Jobs) waitIn(ctx context.Context, tx pgx.Tx, ending *Ending, submitted []string) (*Chained, error) {
	batch := &pgx.Batch{}
	held := queueLockHeld(batch, []job.Lease{ending.Lease})
	signals := queueSignals(batch, []uuid.UUID{ending.Lease.Job})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return nil, err
	}
	row, ok := held[ending.Lease]
	if !ok {
		return nil, nil //nolint:nilnil // as said
	}
	decided, err := decide(row, ending, signals[row.ID])
	if err != nil {
		return nil, err
	}
	decided.submitted = submitted
	decided.saveReplay(ending)
	made := &Chained{Ended: decided.result(), jobs: s, transitions: []*transition{decided}}
	made.Attempt = s.attemptOf(row)
	return made, tx.SendBatch(ctx, finish(made.transitions)).Close()
}

// signal stores the signals. The rows are locked; each is read again, since the job that ends may signal itself.
func (c *Chained) signal(ctx context.Context, tx pgx.Tx, owner tenant.ID, chain Chain) error {
	for i := range chain.Signals {
		one := &chain.Signals[i]
		batch := &pgx.Batch{}
		var live []*lockedRow
		queueLockRows(batch, &live, lockVisibleSQL, store.Args{"id": one.Job, "tenant_id": owner, "user": chain.User})
		if err := tx.SendBatch(ctx, batch).Close(); err != nil {
			return err
		}
		signalled, err := signalIn(ctx, tx, live, owner, chain.User, one.Job, one.Name, one.Data)
		if err != nil {
			return &SignalError{i, err}
		}
		c.woken = append(c.woken, signalled.woken...)
	}
	return nil
}

// chainedAnswer is what is stored of the answer: the rest is known by the job.
type chainedAnswer struct {
	Submitted []string `json:"submitted"`
}

const (
	chainedAnswerSQL = `
UPDATE finished_jobs SET outcome_answer = @answer::json WHERE id = @id AND finished_at = @finished_at`

	chainedWaitSQL = `
UPDATE jobs SET outcome_answer = @answer::json WHERE id = @id AND outcome_lease_id = @lease`
)

// Submitted says which jobs there are now: of one with a dedupe_key that a live job has, that job.
func (c *Chained) Submitted(batch *pgx.Batch, ids []string) {
	if slices.Equal(ids, c.Outcome.Submitted) {
		return
	}
	c.Outcome.Submitted = ids
	for i := range c.rows {
		batch.Queue(chainedAnswerSQL, store.Args{"answer": string(store.JSON(chainedAnswer{ids})), "id": c.rows[i].ID, "finished_at": c.rows[i].FinishedAt})
	}
	for _, one := range c.transitions { // where it was cancelled, the answer of a repeat has the ids that it asked for
		batch.Queue(chainedWaitSQL, store.Args{"answer": string(store.JSON(c.Outcome)), "id": one.row.ID, "lease": one.leaseID})
	}
}

// Committed is called after the commit.
func (c *Chained) Committed() {
	if len(c.rows) > 0 {
		c.jobs.completed(completeChained, c.rows)
	}
	c.jobs.appended(c.transitions)
	c.Woken = c.jobs.promoted(c.woken)
}

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
