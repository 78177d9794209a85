package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A bulk action on jobs that match a filter is a redrive too: the same rows, steps, pace and progress. What it does with a batch is its
// Act, which package submits has.

// ofJobs says that it is a bulk action, not one on dead letters.
func (r *redriveRow) ofJobs() bool {
	return r.Action != api.ActionRedrive && r.Action != api.ActionDiscard
}

func (r *redriveRow) bulk() api.Bulk {
	made := api.Bulk{
		ID: r.ID.String(), Action: r.Action, RatePerSecond: r.RatePerSecond, State: r.State, Matched: r.Matched, MatchedCapped: r.MatchedCapped,
		Done: r.Done, Refused: r.Refused, Refusals: r.Refusals, Waiting: r.Waiting, Error: r.Error,
		CreatedAt: api.At(r.CreatedAt), UpdatedAt: api.At(r.UpdatedAt), EndedAt: api.AtOrNil(r.EndedAt),
	}
	if made.Refusals == nil {
		made.Refusals = map[string]int64{}
	}
	_ = json.Unmarshal(r.Filter, &made.Filter) // written from such values by this package alone
	if r.Target != nil {
		_ = json.Unmarshal(r.Target, &made.To)
	}
	return made
}

// filterOf is the filter of a request by a key; user, where not empty, is the only one whose jobs it reaches.
func filterOf(filter *api.BulkFilter, user string) api.JobFilter {
	made := filter.Filter()
	if user != "" {
		made.User = user
	}
	return made
}

// CountBulk counts the jobs that an action would reach.
func (s *Letters) CountBulk(ctx context.Context, owner tenant.ID, user string, request *api.BulkRequest) (api.Matched, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	conn, err := s.Acquire(ctx)
	if err != nil {
		return api.Matched{}, err
	}
	defer conn.Release()
	found, err := read.Count(ctx, conn, owner, filterOf(&request.Filter, user), api.BulkEnded(request.Action))
	if err != nil {
		return found, fmt.Errorf("deadletter: count: %w", store.NotApplied(store.Classify(err)))
	}
	return found, nil
}

// CreateBulk starts an action on all of a tenant's jobs that match at this moment.
func (s *Letters) CreateBulk(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, request *api.BulkRequest) (made api.Bulk, err error) {
	found, err := s.CountBulk(ctx, owner, user, request)
	if err != nil {
		return made, err
	}
	ctx = store.WithClass(ctx, store.ClassSubmits)
	err = s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		var target *string
		if request.To != nil {
			target = new(string(store.JSON(request.To)))
		}
		created, err := createRow(ctx, tx, owner, user, store.Args{
			"id": id, "action": request.Action, "filter": string(store.JSON(request.Filter)), "target": target, "rate": request.RatePerSecond,
			"canary": nil, "matched": found.Matched, "capped": found.MatchedCapped,
		})
		if err != nil {
			return err
		}
		made = created.bulk()
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditBulkCreate, Object: made.ID, Detail: map[string]any{
			"action": made.Action, "filter": made.Filter, "to": made.To, "rate_per_second": made.RatePerSecond, "matched": made.Matched,
		}})
	})
	if err != nil {
		return made, fmt.Errorf("deadletter: create bulk: %w", err)
	}
	return made, nil
}

// GetBulk gives one of a tenant's bulk actions, of one user where user is not empty.
func (s *Letters) GetBulk(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Bulk, error) {
	row, err := s.getRow(ctx, owner, user, id, false)
	return row.bulk(), err
}

// ListBulk lists a tenant's bulk actions, as ListRedrives does.
func (s *Letters) ListBulk(ctx context.Context, owner tenant.ID, user string, before uuid.UUID, size int) ([]api.Bulk, error) {
	rows, err := s.listRows(ctx, owner, user, before, size, false)
	listed := make([]api.Bulk, len(rows))
	for i := range rows {
		listed[i] = rows[i].bulk()
	}
	return listed, err
}

// CancelBulk ends a bulk action, as CancelRedrive does.
func (s *Letters) CancelBulk(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Bulk, error) {
	row, err := s.cancelRow(ctx, owner, user, id, false, api.AuditBulkCancel)
	return row.bulk(), err
}

// Act does what a bulk action asks for with its next batch, in the transaction that stores the progress. It may be called again, if the
// transaction is.
type Act func(ctx context.Context, tx pgx.Tx, turn *Turn) error

// Turn is a step of a bulk action, and what came of it.
type Turn struct {
	ID     uuid.UUID
	Tenant tenant.ID
	User   string
	Action string
	Filter api.JobFilter
	To     api.BulkTarget
	// CreatedAt is when it was asked for: later jobs are not part of it.
	CreatedAt time.Time
	// Most bounds the batch.
	Most int

	// Cursor is the last job that was read; Ended says that there are no more.
	Cursor uuid.UUID
	Ended  bool
	// Done were changed, Refused stayed, by the code of the problem.
	Done    int64
	Refused map[string]int64
	// Waiting says that a cap on active jobs is full: it continues later, after Cursor.
	Waiting bool
}

// act has a step done.
func (r *RedriveStep) act(ctx context.Context, tx pgx.Tx, act Act) error {
	turn := Turn{
		ID: r.row.ID, Tenant: r.row.TenantID, User: r.row.user(), Action: r.row.Action, CreatedAt: r.row.CreatedAt, Most: r.row.batch(),
		Cursor: r.row.Cursor, Refused: map[string]int64{},
	}
	asked := r.row.bulk()
	turn.Filter, turn.To = filterOf(&asked.Filter, turn.User), store.OrElse(asked.To, api.BulkTarget{})
	if err := act(ctx, tx, &turn); err != nil {
		return err
	}
	r.cursor, r.ended, r.done, r.waiting = turn.Cursor, turn.Ended && !turn.Waiting, turn.Done, turn.Waiting
	if len(turn.Refused) == 0 {
		return nil
	}
	if r.refusals = maps.Clone(r.row.Refusals); r.refusals == nil {
		r.refusals = map[string]int64{}
	}
	for code, n := range turn.Refused {
		r.refusals[code] += n
		r.refused += n
	}
	return nil
}
