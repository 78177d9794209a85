package deadletter

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/usage"
	"github.com/forgequeue/forgequeue/shared/api"
)

const deadLettersSQL = `
WITH chunk AS MATERIALIZED (
  SELECT ` + queue.ListKept + `, 'dead_letter'::text AS state, NULL::uuid AS lease_id, NULL::timestamptz AS lease_expires_at,
         NULL::json AS result, reason, died_at AS finished_at, fingerprint
  FROM dead_letters
  WHERE ` + queue.ListBefore + `
)
SELECT * FROM (
  SELECT *, COALESCE((@queue::text IS NULL OR queue = @queue)
         AND (@type::text IS NULL OR type = @type)
         AND (@user::text IS NULL OR user_id = @user)
         AND (@reason::text IS NULL OR reason = @reason)
         AND (@fingerprint::text IS NULL OR fingerprint = @fingerprint)
         AND (@after::timestamptz IS NULL OR finished_at > @after)
         AND (@until::timestamptz IS NULL OR finished_at < @until), false) AS hit,
         lead(id) OVER (ORDER BY uuid_send(id) DESC) IS NULL AS last,
         count(*) OVER () AS read
  FROM chunk
) AS judged
WHERE hit OR last
ORDER BY uuid_send(id) DESC`

type listedDead struct {
	queue.Listed
	Fingerprint string
}

// DeadLetters gives a page of a tenant's dead letters that match, newest id
// first. user, where not empty, is the only user whose jobs the caller may see.
func (s *Letters) DeadLetters(ctx context.Context, owner tenant.ID, user string, filter api.DeadLetterFilter, size int, token string) (api.Page[api.DeadLetter], error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	args := pgx.StrictNamedArgs{
		"tenant_id": owner, "queue": null.Text(filter.Queue), "type": null.Text(filter.Type), "user": null.Text(user),
		"reason": null.Text(filter.Reason), "fingerprint": null.Text(filter.Fingerprint),
		"after": store.TimeOrNil(filter.After), "until": store.TimeOrNil(filter.Before),
	}
	return store.PageOf(ctx, s.Store, "dead letters", deadLettersSQL, args, size, token, s.deadLetter)
}

func (s *Letters) deadLetter(row *listedDead) api.DeadLetter {
	dead := api.DeadLetter{
		Job: row.Summary(), Reason: *row.Reason, Error: row.Failure(), Fingerprint: row.Fingerprint,
		Attempts: int(row.Attempt), DiedAt: api.At(*row.FinishedAt),
	}
	if s.keep > 0 {
		dead.ExpiresAt = &api.Time{Time: row.FinishedAt.Add(s.keep)}
	}
	return dead
}

// deadByID names dead letters of a tenant. Not tenant_id = @tenant_id: with the plan
// of a day when the table was empty that would be looked up by tenant, and read all
// that the tenant has.
const deadByID = `id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid)`

// redriveSQL gives dead letters another life: same id, attempts anew, the epoch
// goes on. A deadline that has passed is cleared, or it would bury the job again.
// There is no ON CONFLICT: a dedupe_key that a live job holds must undo the DELETE.
const redriveSQL = `
WITH risen AS (
  DELETE FROM dead_letters
  WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)
  RETURNING ` + queue.KeptColumns + `, last_error, outcome_lease_id, outcome_hash, outcome_answer
)
INSERT INTO jobs (id, tenant_id, lane_id, queue, type, user_id, state, priority, payload, tags, metadata, attempt, max_attempts,
                  epoch, redrives, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, timeout_ms, dedupe_key, correlation_id,
                  traceparent, created_at, run_at, deadline, ready_at, started_at, last_error,
                  outcome_lease_id, outcome_hash, outcome_answer, counted, size)
SELECT id, tenant_id, lane_id, queue, type, user_id, 'queued', priority, payload, tags, metadata, 0, max_attempts,
       ` + risenEpoch + `, redrives + 1, retry_base_ms, retry_cap_ms, retry_jitter, retry_curve, timeout_ms, dedupe_key, correlation_id,
       traceparent, created_at, statement_timestamp(),
       CASE WHEN deadline > statement_timestamp() THEN deadline END, statement_timestamp(), started_at, last_error,
       -- the last holder's repeat is told the same until the next claim (D5)
       outcome_lease_id, outcome_hash, outcome_answer, named.counted,
       octet_length(payload::text) + octet_length(metadata::text) + octet_length(tags::text)
FROM risen JOIN unnest(@ids::uuid[], @counted::smallint[]) AS named(id, counted) USING (id)
-- as every insert into jobs, so that two never wait for each other in a circle
ORDER BY tenant_id, dedupe_key NULLS FIRST, id
RETURNING ` + queue.BriefColumns

// Redriven is what became of one dead letter.
type Redriven struct {
	ID    uuid.UUID
	Job   *api.JobSummary
	Ready queue.Ready
	Err   error
}

// CapsOf gives the caps on active jobs that a tenant's job in a queue, of a user or
// of none, comes under.
type CapsOf func(queue string, user *string) []usage.Cap

// Redrive queues dead letters of a tenant again and answers each in order. One
// that cannot rise is left as it is, and keeps no other from rising. Each takes
// its slots again, and may find them taken; capsOf is nil for a tenant without
// caps on active jobs.
func (s *Letters) Redrive(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID, capsOf CapsOf) []Redriven {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	risen, full, err := s.redriveAll(ctx, owner, user, once(ids), capsOf)
	for try := 1; store.Deadlocked(err) && try < store.DeadlockTries; try++ {
		risen, full, err = s.redriveAll(ctx, owner, user, once(ids), capsOf)
	}
	if store.IsUnique(err) && len(ids) > 1 { // one of them; each is then tried alone
		var all []Redriven
		for i := range ids {
			all = append(all, s.Redrive(ctx, owner, user, ids[i:i+1], capsOf)...)
		}
		return all
	}
	all := make([]Redriven, len(ids))
	for i, id := range ids {
		switch row := risen[id]; {
		case store.IsUnique(err):
			all[i].Err = ErrDedupeConflict
		case err != nil:
			all[i].Err = fmt.Errorf("deadletter: redrive: %w", err)
		case full[id] != nil:
			all[i].Err = queue.CapReached(full[id])
		case row != nil:
			summary := row.Summary()
			all[i] = Redriven{ID: id, Job: &summary, Ready: queue.Ready{Lane: row.LaneID, Priority: row.Priority, At: row.RunAt}}
			delete(risen, id) // named twice, it rises once
		default:
			_, all[i].Err = s.jobs.Get(ctx, owner, user, id)
			if all[i].Err == nil {
				all[i].Err = ErrNotDead
			}
		}
	}
	return all
}

// once leaves out what is named again.
func once(ids []uuid.UUID) []uuid.UUID {
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

func (s *Letters) redriveAll(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID, capsOf CapsOf) (risen map[uuid.UUID]*queue.JobRow, full map[uuid.UUID][]usage.FullCap, err error) {
	err = s.InTx(ctx, func(tx pgx.Tx) error {
		if capsOf == nil {
			risen, err = redriveFree(ctx, tx, owner, user, ids)
		} else {
			risen, full, err = s.redriveGuarded(ctx, tx, owner, user, ids, capsOf)
		}
		if err != nil {
			return err
		}
		return audit.RecordJobs(ctx, tx, owner, api.AuditRedrive, slices.Collect(maps.Keys(risen)))
	})
	return risen, full, err
}

// redriveFree is for a tenant without caps on active jobs.
func redriveFree(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]*queue.JobRow, error) {
	rows, err := tx.Query(ctx, redriveSQL, redriveArgs(owner, user, ids, make([]int16, len(ids))))
	if err != nil {
		return nil, err
	}
	risen, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[queue.JobRow])
	return byID(risen), err
}

func redriveArgs(owner tenant.ID, user string, ids []uuid.UUID, counted []int16) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{"ids": ids, "counted": counted, "tenant_id": owner, "user": user}
}

func byID(rows []*queue.JobRow) map[uuid.UUID]*queue.JobRow {
	found := make(map[uuid.UUID]*queue.JobRow, len(rows))
	for _, row := range rows {
		found[row.ID] = row
	}
	return found
}

const lockDeadSQL = `
SELECT id, queue, user_id FROM dead_letters
WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)
ORDER BY id
FOR UPDATE`

type deadKey struct {
	ID     uuid.UUID
	Queue  string
	UserID *string
}

// redriveGuarded admits dead letters under the lock of their tenant, in the order
// in which they are named.
func (s *Letters) redriveGuarded(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, ids []uuid.UUID, capsOf CapsOf) (map[uuid.UUID]*queue.JobRow, map[uuid.UUID][]usage.FullCap, error) {
	if _, err := s.counts.LockAndRead(ctx, tx, store.LockSubmit, []tenant.ID{owner}, nil); err != nil {
		return nil, nil, err
	}
	rows, err := tx.Query(ctx, lockDeadSQL, pgx.StrictNamedArgs{"ids": ids, "tenant_id": owner, "user": user})
	if err != nil {
		return nil, nil, err
	}
	dead, err := pgx.CollectRows(rows, pgx.RowToStructByName[deadKey])
	if err != nil {
		return nil, nil, err
	}
	capsByID := make(map[uuid.UUID][]usage.Cap, len(dead))
	var caps [][]usage.Cap
	for _, d := range dead {
		capsByID[d.ID] = capsOf(d.Queue, d.UserID)
		caps = append(caps, capsByID[d.ID])
	}
	counts, err := usage.ReadUsage(ctx, tx, usage.KeysOf(caps...))
	if err != nil {
		return nil, nil, err
	}
	if err := counts.Keep(ctx, tx); err != nil {
		return nil, nil, err
	}
	if err := counts.Exact(ctx, tx, caps...); err != nil {
		return nil, nil, err
	}
	full := map[uuid.UUID][]usage.FullCap{}
	var admitted []uuid.UUID
	var counted []int16
	for _, id := range ids {
		under, found := capsByID[id]
		if !found {
			continue
		}
		if full[id] = counts.Full(under); len(full[id]) > 0 {
			continue
		}
		delete(full, id)
		counts.Take(under, 1)
		admitted, counted = append(admitted, id), append(counted, int16(usage.BitsOf(under)))
	}
	// They are locked, so each of them rises; or one has a dedupe_key that is taken,
	// and none does.
	rows, err = tx.Query(ctx, redriveSQL, redriveArgs(owner, user, admitted, counted))
	if err != nil {
		return nil, nil, err
	}
	risen, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[queue.JobRow])
	if err != nil {
		return nil, nil, err
	}
	batch := &pgx.Batch{}
	counts.Append(batch)
	return byID(risen), full, tx.SendBatch(ctx, batch).Close()
}

const discardSQL = `
DELETE FROM dead_letters
WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)
RETURNING id`

// Discard forgets dead letters of a tenant for good and says which were there.
func (s *Letters) Discard(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var gone []uuid.UUID
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, discardSQL, pgx.StrictNamedArgs{"ids": ids, "tenant_id": owner, "user": user})
		if err != nil {
			return err
		}
		if gone, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return err
		}
		return audit.RecordJobs(ctx, tx, owner, api.AuditDiscard, gone)
	})
	if err != nil {
		return nil, fmt.Errorf("deadletter: discard: %w", err)
	}
	return idSet(gone), nil
}

func idSet(ids []uuid.UUID) map[uuid.UUID]bool {
	set := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

const countDeadSQL = `
SELECT id FROM dead_letters WHERE ` + deadByID + ` AND (@user::text = '' OR user_id = @user)`

// Dead says which of the ids are dead letters of a tenant.
func (s *Letters) Dead(ctx context.Context, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowTo[uuid.UUID], countDeadSQL, pgx.StrictNamedArgs{"ids": ids, "tenant_id": owner, "user": user})
	if err != nil {
		return nil, fmt.Errorf("deadletter: dead letters: %w", store.NothingChanged(err))
	}
	return idSet(rows), nil
}

// risenEpoch is the epoch of a redriven job: it goes on, so that no lease of the
// life before can ever be mistaken for one of this life (D2).
const risenEpoch = `epoch`
