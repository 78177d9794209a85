package amend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/gate"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Errors that a caller may act on.
var (
	// ErrStarted: the job runs, or has ended.
	ErrStarted = errors.New("amend: job has started")
	// ErrUnlike: the job is not as it was when the edit was made; it is to be made again.
	ErrUnlike = errors.New("amend: job was changed meanwhile")
	// ErrPrecondition: the job is not the version that the caller named.
	ErrPrecondition = errors.New("amend: another version of the job")
)

// Edits has the statements.
type Edits struct {
	*store.Store
	counts *caps.Counts
	gates  *gate.Gate
}

// New makes them.
func New(s *store.Store, counts *caps.Counts, gates *gate.Gate) *Edits {
	return &Edits{Store: s, counts: counts, gates: gates}
}

// Edit is what becomes of one job. What is nil stays as it is.
type Edit struct {
	ID       uuid.UUID
	Priority *int16
	// Payload and Metadata are JSON.
	Payload, Metadata []byte
	Tags              *[]string
	// RunAt is now where it has passed; Delay says it from now. Latest bounds it: so long after the job was created.
	RunAt, Deadline *time.Time
	Delay           *time.Duration
	Latest          *time.Duration
	MaxAttempts     *int32
	// To is another lane, found for a job Like that; of another one it is ErrUnlike. ToFair: keys take turns in it.
	To     lanes.ID
	ToFair bool
	Like   Like
	// Queue is another queue, "" for the same; Caps are those of jobs there.
	Queue string
	Caps  []caps.Cap
	// All is nil for a change of some fields.
	All *All
}

// Like is what a job's lane is found by; without a type the queue alone.
type Like struct {
	Queue, Type string
	Tags        []string
}

// All is the rest of what a job says, where a new submit replaces it.
type All struct {
	Type                       string
	Retry                      job.Retry
	TimeoutMS                  *int64
	ExpiresAfterMS             *int64
	Key                        *string
	KeyWeight                  *float64
	Costs                      api.Amounts
	CorrelationID, Traceparent *string
}

// Amended is a job that has changed.
type Amended struct {
	ID uuid.UUID
	// State is its new one.
	State job.State
	// Ready is its new place; with a zero At it has none, or kept it.
	Ready jobs.Ready
	// Deadline: it may have a new deadline.
	Deadline bool
}

const lockSQL = `
SELECT id, tenant_id, user_id, state, queue, type, lane_id, priority, tags, ready_at, run_at, created_at, attempt, redrives, counted, gate, key, costs, statement_timestamp() AS now,
  COALESCE((SELECT fair FROM lanes WHERE lanes.id = jobs.lane_id), false) AS fair
FROM jobs
WHERE id = ANY(@ids::uuid[]) AND uuid_send(tenant_id) = uuid_send(@tenant_id::uuid) AND (@user::text = '' OR user_id = @user)
ORDER BY id
FOR UPDATE`

// Row is a live job that the transaction has locked.
type Row struct {
	ID        uuid.UUID
	TenantID  tenant.ID
	UserID    *string
	State     job.State
	Queue     string
	Type      string
	LaneID    lanes.ID
	Priority  int16
	Tags      []string
	ReadyAt   *time.Time
	RunAt     time.Time
	CreatedAt time.Time
	Attempt   int32
	Redrives  int32
	Counted   caps.Counter
	Gate      int16
	Key       *string
	Costs     api.Amounts
	// Fair: keys take turns in its lane.
	Fair bool
	// Now is PostgreSQL's clock when it was locked.
	Now time.Time
}

// Lock locks those of a tenant's jobs that are live.
func Lock(ctx context.Context, tx store.Querier, owner tenant.ID, user string, ids []uuid.UUID) (map[uuid.UUID]*Row, error) {
	rows, err := tx.Query(ctx, lockSQL, store.Args{"ids": ids, "tenant_id": owner, "user": user})
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[Row])
	live := make(map[uuid.UUID]*Row, len(found))
	for _, row := range found {
		live[row.ID] = row
	}
	return live, err
}

// LockSome is Lock in a transaction whose edits may have caps.
func (e *Edits) LockSome(ctx context.Context, tx pgx.Tx, owner tenant.ID, ids []uuid.UUID, capped bool) (map[uuid.UUID]*Row, error) {
	if capped {
		if _, err := e.counts.LockAndRead(ctx, tx, store.LockSubmit, []tenant.ID{owner}, nil); err != nil {
			return nil, err
		}
	}
	return Lock(ctx, tx, owner, "", ids)
}

// One changes one job; the error is store.ErrNotFound, ErrStarted, ErrUnlike, ErrPrecondition or a problem. matches, where not nil,
// is asked about the job as it is before. It gives the job as it is then.
func (e *Edits) One(ctx context.Context, owner tenant.ID, user string, edit Edit, matches func(*api.Job) (bool, error)) (found api.Job, made Amended, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var last *Batch
	err = e.InShortTx(ctx, func(batch *pgx.Batch) {
		store.QueueServed(batch, owner)
		if len(edit.Caps) > 0 {
			e.counts.QueueLockAndRead(ctx, batch, store.LockSubmit, []tenant.ID{owner}, nil)
		}
	}, func(tx pgx.Tx) (*pgx.Batch, error) {
		live, err := Lock(ctx, tx, owner, user, []uuid.UUID{edit.ID})
		if err != nil {
			return nil, err
		}
		if matches != nil || live[edit.ID] == nil {
			before, err := read.GetIn(ctx, tx, owner, user, edit.ID)
			if err != nil {
				return nil, err
			}
			if matches != nil {
				switch fits, err := matches(&before); {
				case err != nil:
					return nil, err
				case !fits:
					return nil, ErrPrecondition
				}
			}
		}
		if last, err = Prepare(ctx, tx, live, []Edit{edit}); err != nil {
			return nil, err
		}
		if refused := last.Refused[0]; refused != nil {
			return nil, refused
		}
		if err := last.Send(ctx, tx); err != nil {
			return nil, err
		}
		found, err = read.GetIn(ctx, tx, owner, user, edit.ID)
		return nil, err
	})
	if err != nil {
		return found, made, fmt.Errorf("amend: %w", err)
	}
	e.Committed(last)
	return found, last.Amended[0], nil
}

// Committed is called after the commit of a batch.
func (e *Edits) Committed(made *Batch) {
	if made.Checks {
		e.gates.Appended()
	}
}

// Batch is what changes some jobs, in the transaction that has locked them.
type Batch struct {
	// Refused runs in parallel to the edits: why a job stays as it is.
	Refused []error
	// Amended are the others.
	Amended []Amended
	// Checks says that keys are to be checked.
	Checks     bool
	statements *pgx.Batch
}

// Send changes the jobs.
func (b *Batch) Send(ctx context.Context, tx pgx.Tx) error {
	return tx.SendBatch(ctx, b.statements).Close()
}

// Prepare decides what becomes of jobs, of one tenant, that the transaction has locked. Where an edit has caps, the transaction holds the
// tenant's lock for submits.
func Prepare(ctx context.Context, tx pgx.Tx, live map[uuid.UUID]*Row, edits []Edit) (*Batch, error) {
	made := &Batch{statements: &pgx.Batch{}, Refused: make([]error, len(edits))}
	counts, err := readCounts(ctx, tx, edits)
	if err != nil {
		return nil, err
	}
	var steps []step
	for i := range edits {
		one, err := stepOf(live[edits[i].ID], &edits[i], counts)
		if err != nil {
			made.Refused[i] = err
			continue
		}
		steps = append(steps, one)
		made.Amended = append(made.Amended, one.amended())
	}
	if len(steps) == 0 {
		return made, nil
	}
	made.statements.Queue(amendSQL, argsOf(steps)).Query(func(rows pgx.Rows) error { return placesOf(rows, made.Amended) })
	made.Checks = leave(made.statements, steps)
	counts.Append(made.statements)
	return made, nil
}

// queueCap are the caps of a queue among others: those of tenant and user count the job already.
func queueCap(list []caps.Cap) []caps.Cap {
	return slices.DeleteFunc(slices.Clone(list), func(c caps.Cap) bool { return c.Counter != caps.ActiveQueue })
}

func readCounts(ctx context.Context, tx pgx.Tx, edits []Edit) (*caps.Tally, error) {
	var list [][]caps.Cap
	for i := range edits {
		if under := queueCap(edits[i].Caps); len(under) > 0 {
			list = append(list, under)
		}
	}
	if len(list) == 0 {
		return &caps.Tally{}, nil
	}
	return caps.ReadExact(ctx, tx, list...)
}

// full is the refusal of a job for which its new queue has no capacity.
func full(queue string, of caps.FullCap) error {
	p := problem.New(problem.QueueFull, fmt.Sprintf("The queue %s has %d active jobs, and its max_active is %d. Nothing was changed; try again later, or choose another queue.", queue, of.Used, of.Limit))
	p.Errors = []problem.FieldError{{Field: "queue", Message: "is full"}}
	return p
}
