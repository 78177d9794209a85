package deadletter

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
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

const lockDeadSQL = `
SELECT d.id, d.queue, d.user_id, d.dedupe_key, live.id IS NOT NULL AS taken
FROM dead_letters AS d ` + takenSQL + `
WHERE d.id = ANY(@ids::uuid[]) AND uuid_send(d.tenant_id) = uuid_send(@tenant_id::uuid)
  AND (@user::text = '' OR d.user_id = @user) AND (@dead_by::timestamptz IS NULL OR d.died_at <= @dead_by)
ORDER BY d.id
FOR UPDATE OF d`

type lockedDead struct {
	ID        uuid.UUID
	Queue     string
	UserID    *string
	DedupeKey *string
	Taken     bool
	// caps are asked for once: what is counted and what the job is marked with must not differ if a limit changes meanwhile.
	caps []caps.Cap
}

// dedupe is the pair that is unique among live jobs of a tenant.
func (l *lockedDead) dedupe() [2]string { return [2]string{store.OrElse(l.UserID, ""), *l.DedupeKey} }

// letters are dead letters of a tenant, in the order in which they are to be queued again.
type letters struct {
	owner tenant.ID
	ids   []uuid.UUID
	// user restricts them to one user's; "" for none.
	user string
	// deadBy leaves out those that died later; nil for none. A job that was redriven and died again since it was found
	// does not belong to a redrive by filter.
	deadBy *time.Time
	// inOrder ends at the first one for which a cap is full. Otherwise it is refused, and others may have capacity.
	inOrder bool
}

// redrivenSome is what became of some letters.
type redrivenSome struct {
	// found are the dead letters among them.
	found    map[uuid.UUID]bool
	redriven map[uuid.UUID]*read.Row
	// full have a cap without capacity, taken a dedupe_key that a live job has.
	full  map[uuid.UUID][]caps.FullCap
	taken map[uuid.UUID]bool
	// left are the rest of letters in order, from the first one for which a cap is full.
	left []uuid.UUID
}

// missing are the ids that are no dead letters.
func (r *redrivenSome) missing(ids []uuid.UUID) (missing []uuid.UUID) {
	for _, id := range ids {
		if !r.found[id] {
			missing = append(missing, id)
		}
	}
	return missing
}

// redriveIn queues letters again, under the lock of their tenant if it has caps. One that cannot be redriven stays, and
// does not affect the others.
func (s *Letters) redriveIn(ctx context.Context, tx pgx.Tx, which letters, capsOf CapsOf) (redrivenSome, error) {
	some := redrivenSome{found: map[uuid.UUID]bool{}, full: map[uuid.UUID][]caps.FullCap{}, taken: map[uuid.UUID]bool{}}
	counts, dead, err := s.lockLetters(ctx, tx, which, capsOf)
	if err != nil {
		return some, err
	}
	var admitted []uuid.UUID
	var counted []int16
	keys := map[[2]string]bool{}
	for _, id := range which.ids {
		letter := dead[id]
		if letter == nil {
			continue
		}
		some.found[id] = true
		full := counts.Full(letter.caps)
		switch {
		case len(some.left) > 0:
			some.left = append(some.left, id)
		case letter.DedupeKey != nil && (letter.Taken || keys[letter.dedupe()]):
			some.taken[id] = true
		case len(full) > 0 && which.inOrder:
			some.left = append(some.left, id)
		case len(full) > 0:
			some.full[id] = full
		default:
			if letter.DedupeKey != nil {
				keys[letter.dedupe()] = true
			}
			counts.Take(letter.caps, 1)
			admitted, counted = append(admitted, id), append(counted, int16(caps.BitsOf(letter.caps)))
		}
	}
	if len(admitted) == 0 {
		return some, nil
	}
	if some.redriven, err = redrive(ctx, tx, which.owner, admitted, counted); err != nil {
		return some, err
	}
	batch := &pgx.Batch{}
	if counts.Append(batch); batch.Len() == 0 {
		return some, nil
	}
	return some, tx.SendBatch(ctx, batch).Close()
}

// lockLetters locks the tenant if it has caps, then the letters, then reads the counts that they need.
func (s *Letters) lockLetters(ctx context.Context, tx pgx.Tx, which letters, capsOf CapsOf) (*caps.Tally, map[uuid.UUID]*lockedDead, error) {
	if capsOf != nil {
		if _, err := s.counts.LockAndRead(ctx, tx, store.LockSubmit, []tenant.ID{which.owner}, nil); err != nil {
			return nil, nil, err
		}
	}
	rows, err := tx.Query(ctx, lockDeadSQL, store.Args{"ids": which.ids, "tenant_id": which.owner, "user": which.user, "dead_by": which.deadBy})
	if err != nil {
		return nil, nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedDead])
	dead := make(map[uuid.UUID]*lockedDead, len(found))
	for _, letter := range found {
		dead[letter.ID] = letter
	}
	if err != nil || capsOf == nil {
		return &caps.Tally{}, dead, err
	}
	list := make([][]caps.Cap, len(found))
	for i, letter := range found {
		letter.caps = capsOf(letter.Queue, letter.UserID)
		list[i] = letter.caps
	}
	counts, err := caps.ReadExact(ctx, tx, list...)
	return counts, dead, err
}
