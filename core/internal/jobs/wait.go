package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/webhook/events"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Wait is what a job waits for.
type Wait struct {
	// Names are signals; none: only the time ends the wait.
	Names []string
	// All: it needs all of them, and not any.
	All bool
}

// over says whether the signals that there are end the wait.
func (w *Wait) over(signals []string) bool {
	there := func(name string) bool { return slices.Contains(signals, name) }
	if w.All {
		return len(w.Names) > 0 && !slices.ContainsFunc(w.Names, func(name string) bool { return !there(name) })
	}
	return slices.ContainsFunc(w.Names, there)
}

// signalsSQL is read under the lock of the jobs' rows, under which signals are stored.
const signalsSQL = `
SELECT job_id, name FROM job_signals WHERE job_id = ANY(@ids::uuid[])`

// queueSignals queues the statement that reads the names of jobs' signals. It belongs after the one that locks the jobs.
func queueSignals(batch *pgx.Batch, ids []uuid.UUID) map[uuid.UUID][]string {
	signals := map[uuid.UUID][]string{}
	batch.Queue(signalsSQL, store.Args{"ids": ids}).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var name string
		_, err := pgx.ForEachRow(rows, []any{&id, &name}, func() error {
			signals[id] = append(signals[id], name)
			return nil
		})
		return err
	})
	return signals
}

const (
	// waitSQL stores what a job waits for, and that reads look for it, and appends the events of it.
	waitSQL = `
WITH wait AS (
  INSERT INTO job_waits (job_id, tenant_id, names, all_of, woken) VALUES (@id, @tenant_id, @names, @all, @woken)
  ON CONFLICT (job_id) DO UPDATE SET names = EXCLUDED.names, all_of = EXCLUDED.all_of, woken = EXCLUDED.woken
), linked AS (
  UPDATE jobs SET linked = true WHERE id = @id AND NOT linked
), told AS (
  SELECT 'job.waiting'::text AS kind, ` + read.EventColumns + `, state, NULL::json AS result, NULL::text AS reason,
         statement_timestamp() AS finished_at, @names::text[] AS waiting_for
  FROM jobs WHERE id = @id AND state = 'waiting'
)` + events.AppendLiveSQL + `
RETURNING 1`

	waitCheckpointSQL = `
UPDATE jobs SET checkpoint = @checkpoint::json, size = size + octet_length(@checkpoint::text) - COALESCE(octet_length(checkpoint::text), 0) WHERE id = @id`
)

// queueWaits queues the statements of jobs that wait, after those of their transitions.
func queueWaits(batch *pgx.Batch, transitions []*transition) {
	for _, s := range transitions {
		if s.wait == nil || s.verdict.State.Terminal() {
			continue
		}
		if s.checkpoint != nil {
			batch.Queue(waitCheckpointSQL, store.Args{"id": s.row.ID, "checkpoint": string(s.checkpoint)})
		}
		batch.Queue(waitSQL, store.Args{
			"id": s.row.ID, "tenant_id": s.row.TenantID, "names": store.EmptyIfNil(s.wait.Names), "all": s.wait.All, "woken": s.verdict.State == job.Queued,
			"owners": []uuid.UUID{s.row.TenantID},
		}).Exec(told([]*transition{s}))
	}
}

const (
	storeSignalSQL = `
INSERT INTO job_signals (job_id, name, tenant_id, data, at)
SELECT @id, @name, @tenant_id, @data::json, statement_timestamp()
WHERE (SELECT count(*) FROM job_signals WHERE job_id = @id) < @most
ON CONFLICT (job_id, name) DO NOTHING`

	signalledSQL = `
UPDATE jobs SET linked = true WHERE id = @id AND NOT linked`

	signalSQL = `
SELECT at FROM job_signals WHERE job_id = @id AND name = @name`

	waitOfSQL = `
SELECT names, all_of FROM job_waits WHERE job_id = @id`

	// wakeSQL queues a job that waits. One with a key comes to the gate of it.
	wakeSQL = `
WITH promoted AS (
  UPDATE jobs
  SET state = 'queued', run_at = statement_timestamp(),
      ready_at      = (SELECT CASE WHEN key IS NULL THEN statement_timestamp() END),
      waiting_since = (SELECT CASE WHEN key IS NOT NULL THEN statement_timestamp() END)
  WHERE id = @id AND state = 'waiting'
  RETURNING ` + promotedColumns + `
), woken AS (
  UPDATE job_waits SET woken = true WHERE job_id = @id
)` + promotedSQL
)

// ErrTooManySignals means that a job has as many signals as it may have.
var ErrTooManySignals = errors.New("jobs: the job has as many signals as it may have")

// Signalled is a signal that a job has.
type Signalled struct {
	At time.Time
	// First is false where the name was there before: then nothing has changed.
	First bool
	// Woken is the job that has become ready; nil for none.
	Woken *Ready

	woken []promoted
}

// Signal stores a signal of a live job, the first of its name, and wakes the job if that is what it waits for. data is JSON, nil for
// none. The error is store.ErrNotFound, ErrTerminal or ErrTooManySignals.
func (s *Jobs) Signal(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, name string, data []byte) (made Signalled, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var live []*lockedRow
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueServed(batch, owner)
		queueLockRows(batch, &live, lockVisibleSQL, store.Args{"id": id, "tenant_id": owner, "user": user})
	}, func(tx pgx.Tx) (_ *pgx.Batch, err error) {
		made, err = signalIn(ctx, tx, live, owner, user, id, name, data)
		return nil, err
	})
	if err != nil {
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, ErrTerminal) || errors.Is(err, ErrTooManySignals) {
			return made, err
		}
		return made, fmt.Errorf("jobs: signal: %w", err)
	}
	if ready := s.promoted(made.woken); len(ready) > 0 {
		made.Woken = &ready[0]
	}
	return made, nil
}

// signalIn is Signal in a transaction that has locked the job where it is live.
func signalIn(ctx context.Context, tx pgx.Tx, live []*lockedRow, owner tenant.ID, user string, id uuid.UUID, name string, data []byte) (made Signalled, err error) {
	if len(live) == 0 {
		if _, err := read.GetIn(ctx, tx, owner, user, id); err != nil {
			return made, err
		}
		return made, ErrTerminal
	}
	var text *string
	if data != nil {
		text = new(string(data))
	}
	stored, err := tx.Exec(ctx, storeSignalSQL, store.Args{"id": id, "tenant_id": owner, "name": name, "data": text, "most": api.MaxSignals})
	if err != nil {
		return made, err
	}
	made.First = stored.RowsAffected() == 1
	if err := tx.QueryRow(ctx, signalSQL, store.Args{"id": id, "name": name}).Scan(&made.At); errors.Is(err, pgx.ErrNoRows) {
		return made, ErrTooManySignals
	} else if err != nil || !made.First {
		return made, err
	}
	if _, err := tx.Exec(ctx, signalledSQL, store.Args{"id": id}); err != nil {
		return made, err
	}
	if live[0].State != job.Waiting {
		return made, nil
	}
	if over, err := waitIsOver(ctx, tx, id); err != nil || !over {
		return made, err
	}
	rows, err := tx.Query(ctx, wakeSQL, store.Args{"id": id})
	if err != nil {
		return made, err
	}
	made.woken, err = pgx.CollectRows(rows, pgx.RowToStructByName[promoted])
	return made, err
}

// waitIsOver says whether the signals of a job that waits, which the transaction has locked, end its wait.
func waitIsOver(ctx context.Context, tx pgx.Tx, id uuid.UUID) (bool, error) {
	var wait Wait
	if err := tx.QueryRow(ctx, waitOfSQL, store.Args{"id": id}).Scan(&wait.Names, &wait.All); err != nil {
		return false, err
	}
	rows, err := tx.Query(ctx, signalsSQL, store.Args{"ids": []uuid.UUID{id}})
	if err != nil {
		return false, err
	}
	var names []string
	var name string
	_, err = pgx.ForEachRow(rows, []any{&id, &name}, func() error {
		names = append(names, name)
		return nil
	})
	return wait.over(names), err
}

// forgetSignalsSQL deletes the signals and waits of jobs that are neither live nor dead letters, which a redrive makes live, in the
// order of job ids.
const forgetSignalsSQL = `
WITH asked AS (
  (SELECT job_id FROM job_signals WHERE job_id > @after ORDER BY job_id LIMIT @most)
  UNION
  (SELECT job_id FROM job_waits WHERE job_id > @after ORDER BY job_id LIMIT @most)
), page AS (
  SELECT job_id FROM asked ORDER BY job_id LIMIT @most
), gone AS (
  SELECT job_id FROM page
  WHERE NOT EXISTS (SELECT FROM jobs WHERE id = job_id) AND NOT EXISTS (SELECT FROM dead_letters WHERE id = job_id)
), signals AS (
  DELETE FROM job_signals WHERE job_id = ANY(ARRAY(SELECT job_id FROM gone)) AND tenant_id <> ALL(` + store.MovingSQL + `)
), waits AS (
  DELETE FROM job_waits WHERE job_id = ANY(ARRAY(SELECT job_id FROM gone)) AND tenant_id <> ALL(` + store.MovingSQL + `)
)
SELECT job_id FROM page ORDER BY job_id DESC LIMIT 1`

// ForgetSignals deletes what jobs were told that have ended, of at most most jobs after one, by id, and gives where to go on:
// uuid.Nil at the end.
func (s *Jobs) ForgetSignals(ctx context.Context, after uuid.UUID, most int) (uuid.UUID, error) {
	last, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], forgetSignalsSQL, store.Args{"after": after, "most": most})
	if err != nil {
		return after, fmt.Errorf("jobs: forget signals: %w", store.NotApplied(err))
	}
	if len(last) == 0 {
		return uuid.Nil, nil
	}
	return last[0], nil
}
