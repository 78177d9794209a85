package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A redrive of all dead letters that match a filter, or a discard of them, is a row with its
// progress. Any core works on it, a batch at a time; redrive_step.go says how a batch and the
// progress commit together.

const redriveColumns = `id, tenant_id, user_id, action, filter, rate_per_second, state, matched, matched_capped, done, refused, cursor,
  waiting, error, created_at, updated_at, ended_at`

type redriveRow struct {
	ID            uuid.UUID
	TenantID      tenant.ID
	UserID        *string
	Action        string
	Filter        []byte
	RatePerSecond *float64
	State         string
	Matched       int64
	MatchedCapped bool
	Done          int64
	Refused       int64
	Cursor        uuid.UUID
	Waiting       *string
	Error         *string
	CreatedAt     time.Time
	UpdatedAt     time.Time
	EndedAt       *time.Time
}

func (r *redriveRow) filter() api.DeadLetterFilter {
	var filter api.DeadLetterFilter
	_ = json.Unmarshal(r.Filter, &filter) // written from such a value by this package alone
	return filter
}

func (r *redriveRow) user() string {
	if r.UserID == nil {
		return ""
	}
	return *r.UserID
}

func (r *redriveRow) wire() api.Redrive {
	return api.Redrive{
		ID: r.ID.String(), Action: r.Action, Filter: r.filter(), RatePerSecond: r.RatePerSecond, State: r.State,
		Matched: r.Matched, MatchedCapped: r.MatchedCapped, Done: r.Done, Refused: r.Refused, Waiting: r.Waiting, Error: r.Error,
		CreatedAt: api.At(r.CreatedAt), UpdatedAt: api.At(r.UpdatedAt), EndedAt: api.AtOrNil(r.EndedAt),
	}
}

// createRedriveSQL returns no row if the tenant has reached the bound.
const createRedriveSQL = `
INSERT INTO redrives (id, tenant_id, user_id, action, filter, rate_per_second, state, matched, matched_capped, next_at, created_at, updated_at)
SELECT @id, @tenant_id, @user_id, @action, @filter, @rate, 'running', @matched, @capped,
       statement_timestamp(), statement_timestamp(), statement_timestamp()
WHERE (SELECT count(*) FROM redrives WHERE tenant_id = @tenant_id AND state = 'running') < @most
RETURNING ` + redriveColumns

// NewRedrive is the request for a redrive.
type NewRedrive struct {
	ID     uuid.UUID
	Action string
	Filter api.DeadLetterFilter
	Rate   *float64
}

// CreateRedrive starts a redrive, or a discard, of all of a tenant's dead letters that match; user,
// where not empty, restricts it to one user's jobs. It covers the dead letters of this moment.
func (s *Letters) CreateRedrive(ctx context.Context, owner tenant.ID, user string, request NewRedrive) (api.Redrive, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var made api.Redrive
	err := s.InTx(ctx, func(tx pgx.Tx) error {
		found, err := matching(ctx, tx, owner, user, request.Filter)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, createRedriveSQL, store.Args{
			"id": request.ID, "tenant_id": owner, "user_id": null.Text(user), "action": request.Action, "filter": string(store.JSON(request.Filter)),
			"rate": request.Rate, "matched": found.Matched, "capped": found.MatchedCapped, "most": api.MaxRedrives,
		})
		if err != nil {
			return err
		}
		created, err := pgx.CollectRows(rows, pgx.RowToStructByName[redriveRow])
		if err != nil {
			return err
		}
		if len(created) == 0 {
			return ErrTooManyRedrives
		}
		made = created[0].wire()
		return audit.Record(ctx, tx, audit.Event{Tenant: &owner, Action: api.AuditRedriveCreate, Object: made.ID, Detail: map[string]any{
			"action": made.Action, "filter": made.Filter, "rate_per_second": made.RatePerSecond, "matched": made.Matched,
		}})
	})
	if err != nil {
		return api.Redrive{}, fmt.Errorf("deadletter: create redrive: %w", err)
	}
	return made, nil
}

const getRedriveSQL = `
SELECT ` + redriveColumns + ` FROM redrives WHERE id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user)`

// GetRedrive gives one of a tenant's redrives, of one user where user is not empty.
func (s *Letters) GetRedrive(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Redrive, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[redriveRow], getRedriveSQL, store.Args{"id": id, "tenant_id": owner, "user": user})
	if err != nil {
		return api.Redrive{}, fmt.Errorf("deadletter: redrive: %w", store.NothingChanged(err))
	}
	if len(rows) == 0 {
		return api.Redrive{}, store.ErrNotFound
	}
	return rows[0].wire(), nil
}

const listRedrivesSQL = `
SELECT ` + redriveColumns + ` FROM redrives
WHERE tenant_id = @tenant_id AND uuid_send(id) < uuid_send(@before::uuid) AND (@user::text = '' OR user_id = @user)
ORDER BY uuid_send(id) DESC
LIMIT @size`

// ListRedrives lists a tenant's redrives, newest first, of one user where user is not empty; before
// is the last of the previous page.
func (s *Letters) ListRedrives(ctx context.Context, owner tenant.ID, user string, before uuid.UUID, size int) ([]api.Redrive, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[redriveRow], listRedrivesSQL, store.Args{
		"tenant_id": owner, "user": user, "before": before, "size": size,
	})
	if err != nil {
		return nil, fmt.Errorf("deadletter: redrives: %w", store.NothingChanged(err))
	}
	listed := make([]api.Redrive, len(rows))
	for i := range rows {
		listed[i] = rows[i].wire()
	}
	return listed, nil
}

const runningRedrivesSQL = `
SELECT ` + redriveColumns + `, tenant_id FROM redrives WHERE state = 'running' ORDER BY created_at LIMIT @most`

// RunningRedrives lists those of all tenants that go on, the oldest first.
func (s *Letters) RunningRedrives(ctx context.Context, most int) ([]api.TenantRedrive, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	type ownedRow struct {
		redriveRow
		TenantID tenant.ID
	}
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[ownedRow], runningRedrivesSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("deadletter: running redrives: %w", store.NothingChanged(err))
	}
	running := make([]api.TenantRedrive, len(rows))
	for i := range rows {
		running[i] = api.TenantRedrive{Tenant: rows[i].TenantID.String(), Redrive: rows[i].wire()}
	}
	return running, nil
}

// cancelRedriveSQL waits for a running batch, which has locked the row: after the cancel no other
// batch runs.
const cancelRedriveSQL = `
UPDATE redrives
SET state = 'cancelled', waiting = NULL, updated_at = statement_timestamp(), ended_at = statement_timestamp()
WHERE id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user) AND ended_at IS NULL
RETURNING ` + redriveColumns

// CancelRedrive ends a redrive; finished batches stay done. One that has ended stays as it is, and
// a repeat changes nothing.
func (s *Letters) CancelRedrive(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Redrive, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{"id": id, "tenant_id": owner, "user": user}
	rows, err := audit.Recorded(ctx, s.Store, pgx.RowToStructByName[redriveRow], cancelRedriveSQL, args, func(rows []redriveRow) *audit.Event {
		if len(rows) == 0 {
			return nil
		}
		return &audit.Event{Tenant: &owner, Action: api.AuditRedriveCancel, Object: id.String(), Detail: map[string]any{
			"action": rows[0].Action, "done": rows[0].Done,
		}}
	})
	if err != nil {
		return api.Redrive{}, fmt.Errorf("deadletter: cancel redrive: %w", err)
	}
	if len(rows) == 0 {
		return s.GetRedrive(ctx, owner, user, id)
	}
	return rows[0].wire(), nil
}
