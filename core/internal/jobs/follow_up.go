package jobs

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// followUpsPerStep and edgesPerStep bound one transaction, and so how long it holds the rows of
	// children.
	followUpsPerStep = 10
	edgesPerStep     = 100
)

// lockFollowUpsSQL locks the first follow-ups of a tenant. One whose job has an earlier one, maybe
// locked by another core, is left: a redriven job's completion is not worked off before its death.
const lockFollowUpsSQL = `
SELECT id, job_id, state, redrives FROM follow_ups AS f
WHERE tenant_id = @tenant_id AND NOT EXISTS (SELECT FROM follow_ups AS earlier WHERE earlier.job_id = f.job_id AND earlier.id < f.id)
  AND tenant_id <> ALL(` + store.MovingSQL + `)
ORDER BY id
LIMIT @batch
FOR UPDATE SKIP LOCKED`

type followUpRow struct {
	ID       int64
	JobID    uuid.UUID
	State    job.State
	Redrives int32
}

// waitingEdgesSQL reads the edges that follow-ups touch: an edge that was made after the parent's
// death, when it had been redriven, is not among them, nor is one whose child is held.
const waitingEdgesSQL = `
SELECT (place - 1)::integer AS place, edge.child_id, edge.on_failed
FROM unnest(@jobs::uuid[], @states::text[], @redrives::integer[]) WITH ORDINALITY AS f(job_id, state, redrives, place)
CROSS JOIN LATERAL (
  SELECT child_id, on_failed FROM dependencies AS d
  -- a removed parent has no later life that an edge could wait for
  WHERE d.parent_id = f.job_id AND d.resolved_at IS NULL AND (d.redrives <= f.redrives OR f.state = 'removed')
    AND NOT (f.state = 'dead_letter' AND d.on_failed = 'hold')
  ORDER BY child_id
  LIMIT @most
) AS edge
ORDER BY place, child_id
LIMIT @most`

type waitingEdge struct {
	Place    int32
	ChildID  uuid.UUID
	OnFailed job.OnFailed
}

const lockChildrenSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE id = ANY(@ids::uuid[])
ORDER BY id
FOR UPDATE`

// lockDeadChildrenSQL is for children that died while they waited: a redrive makes them wait again for
// the parents that are left.
const lockDeadChildrenSQL = `
SELECT id FROM dead_letters
WHERE id = ANY(@ids::uuid[])
ORDER BY id
FOR NO KEY UPDATE`

// keepEdgesSQL is for children that are dead letters themselves when a parent dies: their edges wait for the
// parent's next life. A redrive of both makes them wait again, and this follow-up does not find them again.
const keepEdgesSQL = `
UPDATE dependencies AS d SET redrives = kept.redrives + 1
FROM unnest(@children::uuid[], @parents::uuid[], @redrives::integer[]) AS kept(child_id, parent_id, redrives)
WHERE d.resolved_at IS NULL AND d.child_id = kept.child_id AND d.parent_id = kept.parent_id`

const resolveEdgesSQL = `
UPDATE dependencies SET resolved_at = statement_timestamp()
WHERE resolved_at IS NULL
  AND (child_id, parent_id) IN (SELECT * FROM unnest(@children::uuid[], @parents::uuid[]))`

// resolveAllSQL is for children that were cancelled: they wait for nothing.
const resolveAllSQL = `
UPDATE dependencies SET resolved_at = statement_timestamp() WHERE child_id = ANY(@ids::uuid[]) AND resolved_at IS NULL`

// unblockSQL asks whether an edge is left, in a snapshot that is later than the locks of the children:
// it has the resolutions of transactions that held them before. A job with a key comes to the gate of it.
const unblockSQL = `
WITH unblocked AS (
  UPDATE jobs
  SET state         = (SELECT CASE WHEN run_at > statement_timestamp() THEN 'scheduled' ELSE 'queued' END),
      ready_at      = (SELECT CASE WHEN run_at <= statement_timestamp() AND key IS NULL     THEN statement_timestamp() END),
      waiting_since = (SELECT CASE WHEN run_at <= statement_timestamp() AND key IS NOT NULL THEN statement_timestamp() END)
  WHERE id = ANY(@ids::uuid[]) AND state = 'blocked'
    AND NOT EXISTS (SELECT FROM dependencies WHERE child_id = jobs.id AND resolved_at IS NULL)
  RETURNING id, tenant_id, queue, key, lane_id, priority, state, ready_at
), checked AS (
  INSERT INTO key_checks (tenant_id, queue, keys) SELECT tenant_id, queue, array_agg(DISTINCT key) FROM unblocked WHERE key IS NOT NULL AND state = 'queued' GROUP BY tenant_id, queue
)
SELECT id, lane_id, priority, state, ready_at FROM unblocked`

const deleteFollowUpsSQL = `
DELETE FROM follow_ups WHERE id = ANY(@ids::bigint[])`

// unblocked is a job that no longer waits for others.
type unblocked struct {
	ID       uuid.UUID
	LaneID   lanes.ID
	Priority int16
	State    job.State
	ReadyAt  *time.Time
}

func (u *unblocked) change() Change {
	made := Change{ID: u.ID, Event: job.Unblock, Verdict: job.Verdict{State: u.State}, Ready: Ready{Lane: u.LaneID, Priority: u.Priority}}
	if u.ReadyAt != nil {
		made.Ready.At = *u.ReadyAt
	}
	return made
}

// Followed is the result of one step of follow-ups.
type Followed struct {
	// Changes are children that no longer wait, and such as are cancelled because their policy says so.
	Changes []Change
	// Done counts the follow-ups that are worked off.
	Done int
	// More says that the tenant may have more.
	More bool
}

// FollowUp works off some of a tenant's follow-ups in one transaction: children whose last parent
// was resolved are unblocked, others cancelled.
func (s *Jobs) FollowUp(ctx context.Context, owner tenant.ID) (Followed, error) {
	ctx = store.WithClass(ctx, store.ClassOutcomes)
	var step followStep
	tries := 1
	for {
		step = followStep{}
		err := s.InShortTx(ctx, func(batch *pgx.Batch) {
			caps.QueueLockWait(ctx, batch)
			batch.Queue(lockFollowUpsSQL, store.Args{"tenant_id": owner, "batch": followUpsPerStep}).Query(func(rows pgx.Rows) (err error) {
				step.owed, err = pgx.CollectRows(rows, pgx.RowToStructByName[followUpRow])
				return err
			})
		}, func(tx pgx.Tx) (*pgx.Batch, error) { return step.work(ctx, tx) })
		if err == nil {
			break
		}
		if !store.Deadlocked(err) || tries == store.DeadlockTries {
			return Followed{}, fmt.Errorf("jobs: follow-ups: %w", err)
		}
		tries++
	}
	s.appended(step.cancelled)
	if len(step.result.Changes) > 0 {
		s.gates.Appended()
	}
	for _, one := range step.cancelled {
		step.result.Changes = append(step.result.Changes, one.change(job.Cancel))
	}
	return step.result, nil
}

// followStep is the state of one transaction.
type followStep struct {
	owed      []followUpRow
	cancelled []*transition
	result    Followed
}

func (f *followStep) work(ctx context.Context, tx pgx.Tx) (*pgx.Batch, error) {
	f.cancelled, f.result = nil, Followed{} // of the first try, see InTx
	if len(f.owed) == 0 {
		return nil, nil
	}
	edges, err := f.waitingEdges(ctx, tx)
	if err != nil {
		return nil, err
	}
	done := f.done(edges)
	f.result.Done, f.result.More = len(done), len(done) < len(f.owed) || len(f.owed) == followUpsPerStep
	last := &pgx.Batch{}
	if len(edges) > 0 {
		if last, err = f.resolve(ctx, tx, edges); err != nil {
			return nil, err
		}
	}
	last.Queue(deleteFollowUpsSQL, store.Args{"ids": done})
	return last, nil
}

// waitingEdges are at most edgesPerStep.
func (f *followStep) waitingEdges(ctx context.Context, tx pgx.Tx) ([]waitingEdge, error) {
	jobs, states, redrives := make([]uuid.UUID, len(f.owed)), make([]string, len(f.owed)), make([]int32, len(f.owed))
	for i, one := range f.owed {
		jobs[i], states[i], redrives[i] = one.JobID, string(one.State), one.Redrives
	}
	rows, err := tx.Query(ctx, waitingEdgesSQL, store.Args{"jobs": jobs, "states": states, "redrives": redrives, "most": edgesPerStep})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[waitingEdge])
}

// done are the follow-ups that have no other edge than these. Where the bound was reached, the
// one with the last edge may have more, and those after it were not looked at.
func (f *followStep) done(edges []waitingEdge) []int64 {
	ids := make([]int64, 0, len(f.owed))
	for i, one := range f.owed {
		if len(edges) == edgesPerStep && i >= int(edges[len(edges)-1].Place) {
			break
		}
		ids = append(ids, one.ID)
	}
	return ids
}

// resolve locks the children, cancels those whose policy says so, and gives the statements that
// are left.
func (f *followStep) resolve(ctx context.Context, tx pgx.Tx, edges []waitingEdge) (*pgx.Batch, error) {
	children := make([]uuid.UUID, len(edges))
	failed := map[uuid.UUID]*followUpRow{}
	for i, edge := range edges {
		parent := &f.owed[edge.Place]
		children[i] = edge.ChildID
		if job.EffectOf(parent.State, edge.OnFailed) == job.CancelIt {
			failed[edge.ChildID] = parent
		}
	}
	live, dead, err := lockChildren(ctx, tx, children)
	if err != nil {
		return nil, err
	}
	var cancelled []uuid.UUID
	for _, row := range live {
		parent := failed[row.ID]
		if parent == nil || row.State != job.Blocked {
			continue
		}
		verdict, err := job.Next(row.State, job.Cancel, row.facts())
		if err != nil {
			return nil, err
		}
		f.cancelled = append(f.cancelled, &transition{row: row, verdict: verdict, err: parentFailed(parent)})
		cancelled = append(cancelled, row.ID)
	}
	batch := &pgx.Batch{}
	if len(f.cancelled) > 0 {
		batch = finish(f.cancelled)
		batch.Queue(resolveAllSQL, store.Args{"ids": cancelled})
	}
	f.queueEdges(batch, edges, dead)
	batch.Queue(unblockSQL, store.Args{"ids": unblockable(live, cancelled)}).Query(func(rows pgx.Rows) (err error) {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[unblocked])
		for i := range found {
			f.result.Changes = append(f.result.Changes, found[i].change())
		}
		return err
	})
	return batch, nil
}

// queueEdges queues the statements that resolve the edges. Those between two dead letters are kept.
func (f *followStep) queueEdges(batch *pgx.Batch, edges []waitingEdge, dead map[uuid.UUID]bool) {
	var resolved, kept struct {
		children, parents []uuid.UUID
		redrives          []int32
	}
	for _, edge := range edges {
		parent, to := &f.owed[edge.Place], &resolved
		if dead[edge.ChildID] && parent.State == job.DeadLetter {
			to = &kept
		}
		to.children, to.parents, to.redrives = append(to.children, edge.ChildID), append(to.parents, parent.JobID), append(to.redrives, parent.Redrives)
	}
	if len(kept.children) > 0 {
		batch.Queue(keepEdgesSQL, store.Args{"children": kept.children, "parents": kept.parents, "redrives": kept.redrives})
	}
	if len(resolved.children) > 0 {
		batch.Queue(resolveEdgesSQL, store.Args{"children": resolved.children, "parents": resolved.parents})
	}
}

// lockChildren locks the children, and returns the live ones and the ids of the dead letters.
func lockChildren(ctx context.Context, tx pgx.Tx, children []uuid.UUID) (live []*lockedRow, dead map[uuid.UUID]bool, err error) {
	dead = map[uuid.UUID]bool{}
	// One that is redriven between the two statements is in neither, and is found by the next round.
	const rounds = 2
	missing := children
	for round := 0; round < rounds && len(missing) > 0; round++ {
		rows, err := tx.Query(ctx, lockChildrenSQL, store.Args{"ids": missing})
		if err != nil {
			return nil, nil, err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
		if err != nil {
			return nil, nil, err
		}
		live = append(live, found...)
		known := make(map[uuid.UUID]bool, len(missing))
		for _, row := range found {
			known[row.ID] = true
		}
		if missing = without(missing, known); len(missing) == 0 {
			break
		}
		if rows, err = tx.Query(ctx, lockDeadChildrenSQL, store.Args{"ids": missing}); err != nil {
			return nil, nil, err
		}
		died, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		if err != nil {
			return nil, nil, err
		}
		for _, id := range died {
			known[id], dead[id] = true, true
		}
		missing = without(missing, known)
	}
	return live, dead, nil
}

func without(ids []uuid.UUID, known map[uuid.UUID]bool) []uuid.UUID {
	left := make([]uuid.UUID, 0, len(ids))
	for _, id := range ids {
		if !known[id] {
			left = append(left, id)
		}
	}
	return left
}

// unblockable are the blocked jobs that were locked and not cancelled.
func unblockable(live []*lockedRow, cancelled []uuid.UUID) []uuid.UUID {
	ids := make([]uuid.UUID, 0, len(live))
	for _, row := range live {
		if row.State == job.Blocked && !slices.Contains(cancelled, row.ID) {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// parentFailed is the error of a child that is cancelled.
func parentFailed(parent *followUpRow) *api.JobError {
	how := map[job.State]string{
		job.DeadLetter: "is a dead letter", job.Cancelled: "was cancelled", job.Removed: "was a dead letter and was deleted",
	}[parent.State]
	return &api.JobError{
		Type:    api.ErrorParentFailed,
		Message: "the job " + parent.JobID.String() + ", which this job depends on, " + how,
	}
}
