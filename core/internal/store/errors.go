package store

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Errors that a caller may act on. Anything else is an internal fault.
var (
	// ErrNotFound: no such thing for this tenant; another tenant's and unknown are the same.
	ErrNotFound = errors.New("store: not found")
	// ErrOverloaded: refused before anything was done; try again later.
	ErrOverloaded = errors.New("store: overloaded")
	// ErrUnavailable: PostgreSQL cannot be reached; nothing was done.
	ErrUnavailable = errors.New("store: database unavailable")
	// ErrReadOnly: PostgreSQL answers, and takes no writes: a standby, or default_transaction_read_only.
	ErrReadOnly = errors.New("store: database read-only")
	// ErrOutcomeUnknown: the connection was lost before PostgreSQL's answer came.
	ErrOutcomeUnknown = errors.New("store: outcome unknown")
	// ErrTenantMoved: another cell has the tenant, or is about to have it; nothing was done.
	ErrTenantMoved = errors.New("store: tenant moved")
)

// TenantMovedCode is the SQLSTATE of a write to a cell that the tenant has left; the detail is its id.
const TenantMovedCode = "TM001"

// MovedTenantOf gives the tenant of an ErrTenantMoved.
func MovedTenantOf(err error) (owner tenant.ID, is bool) {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.Code != TenantMovedCode {
		return owner, false
	}
	owner, err = uuid.Parse(refused.Detail)
	return owner, err == nil
}
