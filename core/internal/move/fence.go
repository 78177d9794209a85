package move

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// The states of a tenant in tenant_fences.
const (
	fenceDraining = "draining"
	fenceLeft     = "left"
	fenceArriving = "arriving"
	fenceHere     = "here"
)

// Each of these is a transaction of its own: others wait for the row no longer than for its commit.
const (
	readFenceSQL = `
SELECT COALESCE((SELECT state FROM tenant_fences WHERE tenant_id = @tenant_id), '')`
	drainSQL = `
INSERT INTO tenant_fences (tenant_id, state) VALUES (@tenant_id, 'draining') ON CONFLICT DO NOTHING`
	leaveSQL = `
UPDATE tenant_fences SET state = 'left' WHERE tenant_id = @tenant_id AND state = 'draining'`
	// A tenant that had left the cell, and comes back, has a row there if that move has not ended.
	expectSQL = `
INSERT INTO tenant_fences (tenant_id, state) VALUES (@tenant_id, 'arriving')
ON CONFLICT (tenant_id) DO UPDATE SET state = EXCLUDED.state WHERE tenant_fences.state <> 'here'`
	// arriveSQL goes with the copy's COMMIT.
	arriveSQL = `
UPDATE tenant_fences SET state = 'here' WHERE tenant_id = @tenant_id`
	forgetFenceSQL = `
DELETE FROM tenant_fences WHERE tenant_id = @tenant_id`
	// shareFenceSQL has who sets another state wait for the transaction.
	shareFenceSQL = `
SELECT state FROM tenant_fences WHERE tenant_id = @tenant_id FOR SHARE`
)

func (m *Mover) fenceOf(ctx context.Context, in *cell.Cell) (string, error) {
	states, err := store.Query(ctx, in.Store, pgx.RowTo[string], readFenceSQL, store.Args{"tenant_id": m.tenant})
	if err != nil {
		return "", store.NotApplied(err)
	}
	return states[0], nil
}

// askersSQL are the transactions that have asked the table, by the lock that the asking takes, see package store. pg_locks is not
// of a snapshot: it shows what is held when it is read.
const askersSQL = `
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'tenant_fences'::regclass AND mode = 'RowShareLock' AND granted
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND pid <> pg_backend_pid()`

// waitOut waits for the transactions that asked before the tenant's row was committed, and may not have seen it. Those that ask
// later see it; nobody waits for this.
func (m *Mover) waitOut(ctx context.Context, in *cell.Cell) error {
	const pause = 50 * time.Millisecond
	var before map[string]bool
	for {
		askers, err := store.Query(ctx, in.Store, pgx.RowTo[string], askersSQL, store.Args{})
		if err != nil {
			return store.NotApplied(err)
		}
		left := map[string]bool{}
		for _, one := range askers {
			if before == nil || before[one] {
				left[one] = true
			}
		}
		if len(left) == 0 {
			return nil
		}
		before = left
		if err := wait.For(ctx, pause); err != nil {
			return err
		}
	}
}
