package queues

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// capsAddedByQueue compares the limits of a queue before and after.
const queueBeforeSQL = `SELECT max_active, max_running, types FROM queues WHERE tenant_id = @tenant_id AND name = @name FOR UPDATE`

func capsAddedByQueue(owner tenant.ID, name string, request api.QueueRequest) caps.AddedCaps {
	return func(ctx context.Context, tx pgx.Tx) (counters caps.Counter, err error) {
		var active, running *int64
		var types api.TypeLimits
		err = tx.QueryRow(ctx, queueBeforeSQL, store.Args{"tenant_id": owner, "name": name}).Scan(&active, &running, &types)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return 0, err
		}
		if active == nil && request.MaxActive != nil {
			counters |= caps.ActiveQueue
		}
		if running == nil && request.MaxRunning != nil {
			counters |= caps.RunningQueue
		}
		for jobType, limits := range request.Types {
			if limits.MaxRunning != nil && types[jobType].MaxRunning == nil {
				counters |= caps.RunningType
			}
		}
		return counters, nil
	}
}
