package store

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// While a tenant is moved to another cell it has a row in tenant_fences, in both cells (decision 53). Every transaction that
// writes rows of tenants asks that table, in the writing statement or in one before it:
//
//	for tenants that it names   with ServedSQL or one of its forms, which raise TenantMovedCode
//	for any tenants             with MovingSQL, whose tenants it leaves out
//
// Both take a ROW SHARE lock on the table to the end of the transaction, also while it is empty: after it has committed a
// tenant's row, the mover waits for the transactions that had that lock before. The former also take a FOR SHARE lock on the
// tenant's row, so that a change of its state waits for them, and they see the state after a change that they waited for.
const (
	// ServedSQL is true, or raises: the cell takes no writes of @tenant_id.
	ServedSQL = askHead + `f.state <> 'draining'` + askMiddle + `= @tenant_id` + askTail
	// ServedOwnerSQL is ServedSQL of @owner.
	ServedOwnerSQL = askHead + `f.state <> 'draining'` + askMiddle + `= @owner` + askTail
	// ServedTenantsSQL is ServedSQL of @tenants.
	ServedTenantsSQL = askHead + `f.state <> 'draining'` + askMiddle + `= ANY(@tenants::uuid[])` + askTail
	// TakesJobsSQL is true, or raises: the cell takes no new jobs of @tenants.
	TakesJobsSQL = askHead + `true` + askMiddle + `= ANY(@tenants::uuid[])` + askTail

	// The condition on the state is outside of the sub-select, which locks the row with any state: a row that changes
	// meanwhile is then read again.
	askHead   = `(SELECT count(refuse_tenant(f.tenant_id, f.state <> 'here' AND `
	askMiddle = `)) FROM (SELECT tenant_id, state FROM tenant_fences WHERE tenant_id `
	askTail   = ` FOR SHARE) AS f) = 0`

	// MovingSQL are the tenants of which only the mover, and those who name them, may write. The inner sub-select has no
	// row: it takes the lock on the table.
	MovingSQL = movingHead + ` AND NOT EXISTS (SELECT FROM tenant_fences WHERE false FOR SHARE))`
	// MovingNowSQL are the same for statements that only read.
	MovingNowSQL = movingHead + `)`
	movingHead   = `ARRAY(SELECT tenant_id FROM tenant_fences WHERE state <> 'here'`
)

const (
	askServedSQL = `
SELECT ` + ServedSQL
	askTakesJobsSQL = `
SELECT ` + TakesJobsSQL
)

// QueueTakesJobs has a transaction fail with ErrTenantMoved if the cell takes no new jobs of one of the tenants.
func QueueTakesJobs(batch *pgx.Batch, tenants []tenant.ID) {
	batch.Queue(askTakesJobsSQL, Args{"tenants": tenants})
}

// QueueServed has a transaction fail with ErrTenantMoved if the cell takes no writes of the tenant.
func QueueServed(batch *pgx.Batch, owner tenant.ID) {
	batch.Queue(askServedSQL, Args{"tenant_id": owner})
}

// InTenantTx is InTx for writes of one tenant: it fails with ErrTenantMoved if the cell takes none.
func (s *Store) InTenantTx(ctx context.Context, owner tenant.ID, work func(pgx.Tx) error) error {
	return s.InShortTx(ctx, func(batch *pgx.Batch) {
		QueueServed(batch, owner)
	}, func(tx pgx.Tx) (*pgx.Batch, error) { return nil, work(tx) })
}

// movedFor is how long a group commit leaves out a tenant that was refused.
const movedFor = time.Second

// MovedTenants remembers the tenants that were refused a moment ago, so that group commits leave them out. The zero value is
// ready.
type MovedTenants struct {
	mu      sync.Mutex
	refused map[tenant.ID]refusal
}

type refusal struct {
	err   error
	until time.Time
}

// Note remembers the tenant of an ErrTenantMoved, and says whether err is one.
func (m *MovedTenants) Note(err error) bool {
	owner, moved := MovedTenantOf(err)
	if !moved {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused == nil {
		m.refused = map[tenant.ID]refusal{}
	}
	m.refused[owner] = refusal{err, time.Now().Add(movedFor)}
	return true
}

// Split calls refuse for the places among n whose owner was refused a moment ago, and gives the others; some is false where
// there is no such place.
func (m *MovedTenants) Split(n int, owner func(int) tenant.ID, refuse func(int, error)) (others []int, some bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, one := range m.refused {
		if time.Now().After(one.until) {
			delete(m.refused, id)
		}
	}
	if len(m.refused) == 0 {
		return nil, false
	}
	for i := range n {
		if one, moved := m.refused[owner(i)]; moved {
			refuse(i, one.err)
			some = true
		} else {
			others = append(others, i)
		}
	}
	return others, some
}
