package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// A redrive of all dead letters that match a filter, or a discard of them, is a row with its
// progress. Any core works on it, a batch at a time; redrive_step.go says how a batch and the
// progress commit together.

const redriveColumns = `id, tenant_id, user_id, action, filter, target, refusals, rate_per_second, state, matched, matched_capped, done, refused, cursor,
  waiting, error, canary, created_at, updated_at, ended_at`

// unfinished is the condition of redrives that go on.
const unfinished = `state = 'running'`

type redriveRow struct {
	ID            uuid.UUID
	TenantID      tenant.ID
	UserID        *string
	Action        string
	Filter        []byte
	Target        []byte
	Refusals      map[string]int64
	RatePerSecond *float64
	State         string
	Matched       int64
	MatchedCapped bool
	Done          int64
	Refused       int64
	Cursor        uuid.UUID
	Waiting       *string
	Error         *string
	Canary        []byte
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

// canary is nil for a redrive without.
func (r *redriveRow) canary() *api.Canary {
	if r.Canary == nil {
		return nil
	}
	canary := &api.Canary{}
	_ = json.Unmarshal(r.Canary, canary) // written from such a value by this package alone
	return canary
}

// sampling says that the redrive continues with a sample that has not passed yet.
func (r *redriveRow) sampling() bool {
	canary := r.canary()
	return canary != nil && (canary.State == api.CanarySampling || canary.State == api.CanaryWaiting)
}

func (r *redriveRow) wire() api.Redrive {
	return api.Redrive{
		ID: r.ID.String(), Action: r.Action, Filter: r.filter(), RatePerSecond: r.RatePerSecond, State: r.State, Canary: r.canary(),
		Matched: r.Matched, MatchedCapped: r.MatchedCapped, Done: r.Done, Refused: r.Refused, Waiting: r.Waiting, Error: r.Error,
		CreatedAt: api.At(r.CreatedAt), UpdatedAt: api.At(r.UpdatedAt), EndedAt: api.AtOrNil(r.EndedAt),
	}
}

// userRedrives is how many of a tenant's unfinished redrives keys that are bound to one user may have.
const userRedrives = api.MaxRedrives / 2

// createRedriveSQL returns no row if the tenant, or the user of the key, has reached the bound. Citus takes no INSERT whose
// SELECT reads tables in a subquery.
const createRedriveSQL = `
WITH open AS MATERIALIZED (
  SELECT count(*) AS n, count(*) FILTER (WHERE user_id = @user_id) AS own FROM redrives WHERE tenant_id = @tenant_id AND ` + unfinished + `
), created AS (
INSERT INTO redrives (id, tenant_id, user_id, action, filter, target, rate_per_second, canary, state, matched, matched_capped, next_at, created_at, updated_at)
SELECT @id, @tenant_id, @user_id, @action, @filter, @target, @rate, @canary::json, 'running', @matched, @capped,
       statement_timestamp(), statement_timestamp(), statement_timestamp()
WHERE (SELECT n FROM open) < @most AND (SELECT own FROM open) < @user_most
RETURNING ` + redriveColumns + `
)
SELECT * FROM created`

// NewRedrive is the request for a redrive.
type NewRedrive struct {
	ID     uuid.UUID
	Action string
	Filter api.DeadLetterFilter
	Rate   *float64
	// Canary is nil for a redrive without.
	Canary *api.CanaryRequest
}

// CreateRedrive starts a redrive, or a discard, of all of a tenant's dead letters that match; user,
// where not empty, restricts it to one user's jobs. It covers the dead letters of this moment.
func (s *Letters) CreateRedrive(ctx context.Context, owner tenant.ID, user string, request NewRedrive) (api.Redrive, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	var made api.Redrive
	err := s.InTenantTx(ctx, owner, func(tx pgx.Tx) error {
		found, err := matching(ctx, tx, owner, user, request.Filter)
		if err != nil {
			return err
		}
		created, err := createRow(ctx, tx, owner, user, store.Args{
			"id": request.ID, "action": request.Action, "filter": string(store.JSON(request.Filter)), "target": nil,
			"rate": request.Rate, "canary": newCanary(request.Canary), "matched": found.Matched, "capped": found.MatchedCapped,
		})
		if err != nil {
			return err
		}
		made = created.wire()
		if request.Canary != nil {
			if err := chooseSample(ctx, tx, created, request.Canary.Count); err != nil {
				return err
			}
		}
		return audit.Record(ctx, tx, createdEvent(owner, made, request.Canary))
	})
	if err != nil {
		return api.Redrive{}, fmt.Errorf("deadletter: create redrive: %w", err)
	}
	return made, nil
}

func createRow(ctx context.Context, tx pgx.Tx, owner tenant.ID, user string, args store.Args) (*redriveRow, error) {
	args["tenant_id"], args["user_id"], args["most"], args["user_most"] = owner, store.NullIfEmpty(user), api.MaxRedrives, userRedrives
	rows, err := tx.Query(ctx, createRedriveSQL, args)
	if err != nil {
		return nil, err
	}
	created, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[redriveRow])
	if err != nil {
		return nil, err
	}
	if len(created) == 0 {
		return nil, tooManyRedrives(user)
	}
	return created[0], nil
}

// tooManyRedrives is which bound was reached; for a user's key it is the user's as far as the caller can tell.
func tooManyRedrives(user string) error {
	if user != "" {
		return ErrTooManyUserRedrives
	}
	return ErrTooManyRedrives
}

func createdEvent(owner tenant.ID, made api.Redrive, canary *api.CanaryRequest) audit.Event {
	detail := map[string]any{"action": made.Action, "filter": made.Filter, "rate_per_second": made.RatePerSecond, "matched": made.Matched}
	if canary != nil {
		detail["canary"] = canary.WithDefaults()
	}
	return audit.Event{Tenant: &owner, Action: api.AuditRedriveCreate, Object: made.ID, Detail: detail}
}

// ofDead are the redrives of dead letters; the others are bulk actions.
const ofDead = `(action IN ('redrive', 'discard')) = @of_dead`

const getRedriveSQL = `
SELECT ` + redriveColumns + ` FROM redrives WHERE id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user) AND ` + ofDead + `
`

// GetRedrive gives one of a tenant's redrives, of one user where user is not empty.
func (s *Letters) GetRedrive(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Redrive, error) {
	row, err := s.getRow(ctx, owner, user, id, true)
	return row.wire(), err
}

func (s *Letters) getRow(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, dead bool) (redriveRow, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[redriveRow], getRedriveSQL, store.Args{"id": id, "tenant_id": owner, "user": user, "of_dead": dead})
	if err != nil {
		return redriveRow{}, fmt.Errorf("deadletter: redrive: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return redriveRow{}, store.ErrNotFound
	}
	return rows[0], nil
}

const listRedrivesSQL = `
SELECT ` + redriveColumns + ` FROM redrives
WHERE tenant_id = @tenant_id AND uuid_send(id) < uuid_send(@before::uuid) AND (@user::text = '' OR user_id = @user) AND ` + ofDead + `
ORDER BY uuid_send(id) DESC
LIMIT @size`

// ListRedrives lists a tenant's redrives, newest first, of one user where user is not empty; before
// is the last of the previous page.
func (s *Letters) ListRedrives(ctx context.Context, owner tenant.ID, user string, before uuid.UUID, size int) ([]api.Redrive, error) {
	rows, err := s.listRows(ctx, owner, user, before, size, true)
	if err != nil {
		return nil, err
	}
	listed := make([]api.Redrive, len(rows))
	for i := range rows {
		listed[i] = rows[i].wire()
	}
	return listed, nil
}

func (s *Letters) listRows(ctx context.Context, owner tenant.ID, user string, before uuid.UUID, size int, dead bool) ([]redriveRow, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[redriveRow], listRedrivesSQL, store.Args{
		"tenant_id": owner, "user": user, "before": before, "size": size, "of_dead": dead,
	})
	if err != nil {
		return nil, fmt.Errorf("deadletter: redrives: %w", store.NotApplied(err))
	}
	return rows, nil
}

const runningRedrivesSQL = `
SELECT ` + redriveColumns + ` FROM redrives WHERE ` + unfinished + ` AND action IN ('redrive', 'discard') ORDER BY created_at LIMIT @most`

// RunningRedrives lists those of all tenants that go on, the oldest first.
func (s *Letters) RunningRedrives(ctx context.Context, most int) ([]api.TenantRedrive, error) {
	ctx = store.WithClass(ctx, store.ClassLists)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByName[redriveRow], runningRedrivesSQL, store.Args{"most": most})
	if err != nil {
		return nil, fmt.Errorf("deadletter: running redrives: %w", store.NotApplied(err))
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
WITH cancelled AS (
  UPDATE redrives
  SET state = 'cancelled', waiting = NULL, updated_at = statement_timestamp(), ended_at = statement_timestamp()
  WHERE id = @id AND tenant_id = @tenant_id AND (@user::text = '' OR user_id = @user) AND ended_at IS NULL AND ` + ofDead + `
  RETURNING ` + redriveColumns + `
), gone AS (
  DELETE FROM redrive_samples WHERE redrive_id = (SELECT id FROM cancelled)
)
SELECT * FROM cancelled`

// CancelRedrive ends a redrive; finished batches stay done. One that has ended stays as it is, and
// a repeat changes nothing.
func (s *Letters) CancelRedrive(ctx context.Context, owner tenant.ID, user string, id uuid.UUID) (api.Redrive, error) {
	row, err := s.cancelRow(ctx, owner, user, id, true, api.AuditRedriveCancel)
	return row.wire(), err
}

func (s *Letters) cancelRow(ctx context.Context, owner tenant.ID, user string, id uuid.UUID, dead bool, action string) (redriveRow, error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	args := store.Args{"id": id, "tenant_id": owner, "user": user, "of_dead": dead}
	rows, err := audit.Recorded(ctx, s.Store, owner, pgx.RowToStructByName[redriveRow], cancelRedriveSQL, args, func(rows []redriveRow) *audit.Event {
		if len(rows) == 0 {
			return nil
		}
		return &audit.Event{Tenant: &owner, Action: action, Object: id.String(), Detail: map[string]any{
			"action": rows[0].Action, "done": rows[0].Done,
		}}
	})
	if err != nil {
		return redriveRow{}, fmt.Errorf("deadletter: cancel redrive: %w", err)
	}
	if len(rows) == 0 {
		return s.getRow(ctx, owner, user, id, dead)
	}
	return rows[0], nil
}
