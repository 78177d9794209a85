package deadletter

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/ledger"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// redrivenColumns are those that a redrive leaves as they are. The last holder's repeat gets the same answer until the next
// claim (D5).
const redrivenColumns = read.IdentityColumns + `, priority, payload, tags, metadata, ` + read.OptionColumns + `, ` + read.KeyColumns + `, ` + read.LinkColumns + `,
  created_at, started_at, progress, checkpoint, ` + read.AnswerColumns

// redriveSQL makes dead letters live jobs again: same id, attempts from 0, the epoch continues. A
// deadline in the past is cleared, otherwise the job would expire again. There is no ON CONFLICT: a
// dedupe_key that a live job holds must undo the DELETE.
const redriveSQL = `
WITH redriven AS (
  DELETE FROM dead_letters
  WHERE ` + deadByID + `
  RETURNING ` + read.StableColumns + `, ` + read.AnswerColumns + `, died_at
)` + ledger.RedrivenSQL + `, links AS MATERIALIZED ( -- Citus takes no INSERT whose SELECT reads tables in a subquery
  SELECT child_id AS id, count(*)::integer AS n FROM dependencies WHERE child_id = ANY(@ids::uuid[]) GROUP BY child_id
), queued AS (
INSERT INTO jobs (` + redrivenColumns + `,
                  state, attempt, epoch, redrives, run_at, deadline, ready_at, waiting_since, counted, size)
SELECT ` + redrivenColumns + `,
       'queued', 0, ` + redrivenEpoch + `, redrives + 1, statement_timestamp(),
       CASE WHEN deadline > statement_timestamp() THEN deadline END,
       -- one with a key comes to the gate of it
       CASE WHEN key IS NULL THEN statement_timestamp() END, CASE WHEN key IS NOT NULL THEN statement_timestamp() END, named.counted,
       octet_length(payload::text) + COALESCE(octet_length(checkpoint::text), 0) + octet_length(metadata::text) + octet_length(tags::text)
         + CASE WHEN linked THEN @parent_size::integer * COALESCE(links.n, 0) ELSE 0 END
FROM redriven JOIN unnest(@ids::uuid[], @counted::smallint[]) AS named(id, counted) USING (id) LEFT JOIN links USING (id)
-- in the order of every insert into jobs, so that two never deadlock
ORDER BY tenant_id, COALESCE(user_id, '') COLLATE "C", dedupe_key COLLATE "C" NULLS FIRST, id
RETURNING ` + read.BriefColumns + `
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM queued WHERE key IS NOT NULL GROUP BY tenant_id, queue
)
SELECT * FROM queued`

// resolveDeadSQL is for jobs that died while they waited for others, some of which are dead letters: such an
// edge with the policy 'run' waits no longer.
const resolveDeadSQL = `
UPDATE dependencies SET resolved_at = statement_timestamp()
WHERE child_id = ANY(@ids::uuid[]) AND resolved_at IS NULL AND on_failed = 'run'
  AND EXISTS (SELECT FROM dead_letters WHERE id = parent_id)`

// renewEdgesSQL makes the edges of redriven jobs wait for the present life of their live parents: a follow-up
// of an earlier death that is still to be worked off does not touch them.
const renewEdgesSQL = `
UPDATE dependencies AS d SET redrives = parent.redrives
FROM jobs AS parent
WHERE d.child_id = ANY(@ids::uuid[]) AND d.resolved_at IS NULL AND parent.id = d.parent_id AND parent.redrives > d.redrives`

// blockAgainSQL is for jobs that died while they waited for others: they wait again for those that are
// left. An edge is resolved under the lock of its child only, and the redrive holds it.
const blockAgainSQL = `
UPDATE jobs SET state = 'blocked', ready_at = NULL
WHERE id = ANY(@ids::uuid[]) AND EXISTS (SELECT FROM dependencies WHERE child_id = jobs.id AND resolved_at IS NULL)
RETURNING id`

// redrive makes live jobs of dead letters that the transaction has locked.
func redrive(ctx context.Context, tx pgx.Tx, owner tenant.ID, ids []uuid.UUID, counted []int16) (map[uuid.UUID]*read.Row, error) {
	rows, err := tx.Query(ctx, redriveSQL, store.Args{"ids": ids, "counted": counted, "tenant_id": owner, "parent_size": dependency.ClaimedSize})
	if err != nil {
		return nil, err
	}
	queued, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[read.Row])
	if err != nil {
		return nil, err
	}
	redriven := make(map[uuid.UUID]*read.Row, len(queued))
	var linked []uuid.UUID
	for _, row := range queued {
		redriven[row.ID] = row
		if row.Linked {
			linked = append(linked, row.ID)
		}
	}
	if len(linked) == 0 {
		return redriven, nil
	}
	args := store.Args{"ids": linked}
	batch := &pgx.Batch{}
	batch.Queue(resolveDeadSQL, args)
	batch.Queue(renewEdgesSQL, args)
	batch.Queue(blockAgainSQL, args).Query(func(rows pgx.Rows) error {
		blocked, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		for _, id := range blocked {
			redriven[id].State = api.StateBlocked
		}
		return err
	})
	return redriven, tx.SendBatch(ctx, batch).Close()
}

// redrivenOf is the result for a job that was redriven.
func redrivenOf(row *read.Row) Redriven {
	summary := row.Summary()
	made := Redriven{ID: row.ID, Job: &summary}
	if row.State == api.StateQueued {
		made.Ready = jobs.Ready{Lane: row.LaneID, Priority: row.Priority}
		if !row.AtGate {
			made.Ready.At = row.RunAt
		}
	}
	return made
}

// Redriven is the result for one dead letter.
type Redriven struct {
	ID  uuid.UUID
	Job *api.JobSummary
	// Ready has no lane where the job is blocked, and no At where it came to the gate of its key.
	Ready jobs.Ready
	Err   error
}

// CapsOf gives the caps on active jobs for a tenant's job in a queue, of a user or of none.
type CapsOf func(queue string, user *string) []caps.Cap

// Redrive queues dead letters of a tenant again and gives the results in order. One that cannot be
// redriven stays, and does not affect the others. Each needs capacity again; capsOf is nil for a
// tenant without caps on active jobs.
func (s *Letters) Redrive(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID, capsOf CapsOf) []Redriven {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	which := letters{owner: owner, user: user, ids: unique(ids)}
	some, err := s.redriveSome(ctx, which, capsOf)
	// A live job got one of the dedupe_keys, or a deadlock was ended: the next try sees what there is then.
	for try := 1; (store.Deadlocked(err) || store.IsUnique(err)) && try < store.DeadlockTries; try++ {
		some, err = s.redriveSome(ctx, which, capsOf)
	}
	if store.IsUnique(err) && len(ids) > 1 { // which of them is not known
		err = fmt.Errorf("%w: live jobs with the same dedupe_keys come and go", store.ErrOverloaded)
	}
	var known map[uuid.UUID]bool
	if err == nil {
		s.gates.Appended()
		known, err = s.reads.Existing(ctx, owner, user, some.missing(ids))
	}
	all := make([]Redriven, len(ids))
	for i, id := range ids {
		switch row := some.redriven[id]; {
		case store.IsUnique(err):
			all[i].Err = ErrDedupeConflict
		case err != nil:
			all[i].Err = fmt.Errorf("deadletter: redrive: %w", err)
		case some.full[id] != nil:
			all[i].Err = submit.CapReached(some.full[id], nil)
		case some.taken[id]:
			all[i].Err = ErrDedupeConflict
		case row != nil:
			all[i] = redrivenOf(row)
			delete(some.redriven, id) // the same id twice: redriven once
		case some.found[id] || known[id]:
			all[i].Err = ErrNotDead
		default:
			all[i].Err = store.ErrNotFound
		}
	}
	return all
}

// unique removes repeated ids.
func unique(ids []uuid.UUID) []uuid.UUID {
	seen := make(map[uuid.UUID]bool, len(ids))
	kept := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}

// redriveSome is redriveIn in a transaction of its own, with its entry in the audit log.
func (s *Letters) redriveSome(ctx context.Context, which letters, capsOf CapsOf) (some redrivenSome, err error) {
	err = s.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueTakesJobs(batch, []tenant.ID{which.owner})
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		if some, err = s.redriveIn(ctx, tx, which, capsOf); err != nil {
			return nil, err
		}
		return nil, audit.RecordJobs(ctx, tx, which.owner, api.AuditRedrive, slices.Collect(maps.Keys(some.redriven)))
	})
	return some, err
}

// redrivenEpoch is the epoch of a redriven job: it continues, so that no earlier lease can match a
// later one (D2).
const redrivenEpoch = `epoch`
