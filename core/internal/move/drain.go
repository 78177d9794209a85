package move

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// drainPause is the time between two looks at the leases.
const drainPause = 200 * time.Millisecond

// heldSQL reads all running jobs of the cell, which are bounded by what workers can hold.
const heldSQL = `
SELECT id, epoch, lease_id, lease_expires_at - statement_timestamp() AS rest FROM jobs
WHERE state = 'running' AND tenant_id = @tenant_id`

type held struct {
	ID      uuid.UUID
	Epoch   int64
	LeaseID uuid.UUID
	Rest    time.Duration
}

func (m *Mover) held(ctx context.Context) (leases []held, longest time.Duration, err error) {
	leases, err = store.Query(ctx, m.source.Store, pgx.RowToStructByName[held], heldSQL, store.Args{"tenant_id": m.tenant})
	for _, one := range leases {
		longest = max(longest, one.Rest)
	}
	return leases, longest, store.NotApplied(err)
}

// drain ends the tenant's leases: the source claims no more of its jobs, and takes outcomes and heartbeats, for as long as the
// longest lease lasts when this begins. The jobs of what is left then are queued again, without a used attempt; so are those
// of leases that expire meanwhile, for the source's cores reap none of the tenant. Then the source takes no writes of it.
func (m *Mover) drain(ctx context.Context) error {
	if err := m.do(ctx, m.source, drainSQL); err != nil {
		return err
	}
	if err := m.waitOut(ctx, m.source); err != nil {
		return err
	}
	leases, rest, err := m.held(ctx)
	for end := time.Now().Add(min(rest, m.longestDrain)); err == nil && rest > 0 && time.Now().Before(end); {
		if err := wait.For(ctx, drainPause); err != nil {
			return err
		}
		leases, rest, err = m.held(ctx)
	}
	const tries = 10 // an outcome may come first
	for try := 0; err == nil && len(leases) > 0; try++ {
		if try == tries {
			return fmt.Errorf("%d leases of the tenant cannot be released", len(leases))
		}
		m.release(ctx, leases)
		leases, _, err = m.held(ctx)
	}
	if err != nil {
		return err
	}
	return m.do(ctx, m.source, leaveSQL)
}

func (m *Mover) release(ctx context.Context, leases []held) {
	named := make([]job.Lease, len(leases))
	for i, one := range leases {
		named[i] = job.Lease{Tenant: m.tenant, Job: one.ID, Epoch: one.Epoch, ID: one.LeaseID}
	}
	for _, ended := range m.source.Jobs.GiveBack(ctx, named) {
		if ended.Err != nil {
			m.log.WarnContext(ctx, "a lease could not be released", "tenant", m.tenant, "error", ended.Err)
		}
	}
}
