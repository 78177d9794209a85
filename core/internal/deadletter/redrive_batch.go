package deadletter

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// takenSQL finds the live job that has a dead letter's dedupe_key.
const takenSQL = `
-- LIMIT makes it a look-up for each: an EXISTS may be planned as a hash of all live jobs
LEFT JOIN LATERAL (
  SELECT j.id FROM jobs j
  WHERE j.tenant_id = d.tenant_id AND COALESCE(j.user_id, '') = COALESCE(d.user_id, '') AND j.dedupe_key BETWEEN d.dedupe_key AND d.dedupe_key
  -- BETWEEN, and the order of jobs_dedupe: while the table is empty another index seems as good, and its plan is kept
  ORDER BY j.tenant_id, COALESCE(j.user_id, ''), j.dedupe_key
  LIMIT 1
) AS live ON true`

// lockMatchingSQL locks a batch. A job that was redriven and died again since it was found does not
// belong to the redrive.
const lockMatchingSQL = `
SELECT d.id, d.queue, d.user_id, d.dedupe_key, live.id IS NOT NULL AS taken
FROM dead_letters d ` + takenSQL + `
WHERE d.id = ANY(@ids::uuid[]) AND uuid_send(d.tenant_id) = uuid_send(@tenant_id::uuid) AND d.died_at <= @dead_by
ORDER BY d.id
FOR UPDATE OF d`

type matchedDead struct {
	ID        uuid.UUID
	Queue     string
	UserID    *string
	DedupeKey *string
	Taken     bool
	// caps are asked for once: what is counted and what the job is marked with must not differ if a limit changes meanwhile.
	caps []caps.Cap
}

// dedupe is the pair that is unique among live jobs of a tenant.
func (m *matchedDead) dedupe() [2]string {
	user := ""
	if m.UserID != nil {
		user = *m.UserID
	}
	return [2]string{user, *m.DedupeKey}
}

// redriveBatchIn queues a batch again. It ends before the first job for which a cap is full: the redrive
// waits, and continues with that job.
func (s *Letters) redriveBatchIn(ctx context.Context, tx pgx.Tx, step *RedriveStep, ids []uuid.UUID, capsOf CapsOf) error {
	owner, before := step.row.TenantID, step.row.Cursor
	counts, dead, err := s.lockLetters(ctx, tx, owner, lockMatchingSQL, store.Args{"ids": ids, "tenant_id": owner, "dead_by": step.row.CreatedAt}, capsOf)
	if err != nil {
		return err
	}
	var admitted []uuid.UUID
	var counted []int16
	taken := map[[2]string]bool{}
	for i, d := range dead {
		if d.DedupeKey != nil && (d.Taken || taken[d.dedupe()]) {
			step.refused++
			before = d.ID
			continue
		}
		if len(counts.Full(d.caps)) > 0 {
			step.cursor, step.waiting, step.ended = before, true, false
			for _, later := range dead[i:] {
				step.later = append(step.later, later.ID)
			}
			break
		}
		if d.DedupeKey != nil {
			taken[d.dedupe()] = true
		}
		counts.Take(d.caps, 1)
		before = d.ID
		admitted, counted = append(admitted, d.ID), append(counted, int16(caps.BitsOf(d.caps)))
	}
	return step.redrive(ctx, tx, owner, admitted, counted, counts)
}

// lockLetters locks the tenant if it has caps, then the letters, then reads the counts that they need.
func (s *Letters) lockLetters(ctx context.Context, tx pgx.Tx, owner tenant.ID, sql string, args store.Args, capsOf CapsOf) (*caps.Tally, []matchedDead, error) {
	if capsOf != nil {
		if _, err := s.counts.LockAndRead(ctx, tx, store.LockSubmit, []tenant.ID{owner}, nil); err != nil {
			return nil, nil, err
		}
	}
	rows, err := tx.Query(ctx, sql, args)
	if err != nil {
		return nil, nil, err
	}
	dead, err := pgx.CollectRows(rows, pgx.RowToStructByName[matchedDead])
	if err != nil || capsOf == nil {
		return &caps.Tally{}, dead, err
	}
	list := make([][]caps.Cap, len(dead))
	for i := range dead {
		dead[i].caps = capsOf(dead[i].Queue, dead[i].UserID)
		list[i] = dead[i].caps
	}
	counts, err := caps.ReadUsage(ctx, tx, caps.KeysOf(list...))
	if err != nil {
		return nil, nil, err
	}
	if err := counts.EnsureRows(ctx, tx); err != nil {
		return nil, nil, err
	}
	return counts, dead, counts.Exact(ctx, tx, list...)
}

func (r *RedriveStep) redrive(ctx context.Context, tx pgx.Tx, owner tenant.ID, ids []uuid.UUID, counted []int16, counts *caps.Tally) error {
	if len(ids) == 0 {
		return nil
	}
	redriven, err := redrive(ctx, tx, redriveArgs(owner, "", ids, counted))
	if err != nil {
		return err
	}
	for _, row := range redriven {
		r.Redriven = append(r.Redriven, redrivenOf(row))
	}
	r.done = int64(len(redriven))
	batch := &pgx.Batch{}
	counts.Append(batch)
	if batch.Len() == 0 {
		return nil
	}
	return tx.SendBatch(ctx, batch).Close()
}
