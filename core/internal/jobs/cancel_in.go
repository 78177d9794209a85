package jobs

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/store"
)

const lockLiveSQL = `
SELECT ` + lockedColumns + `
FROM jobs
WHERE id = ANY(@ids::uuid[])
ORDER BY id
FOR UPDATE`

// CancelIn cancels jobs, of any tenants, as Cancel does, in the transaction of what replaces them. It
// gives the jobs that waited and have ended, and those that run and are asked to stop; those that have
// ended before stay as they are.
func CancelIn(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) (ended []Change, requested []uuid.UUID, err error) {
	rows, err := tx.Query(ctx, lockLiveSQL, store.Args{"ids": ids})
	if err != nil {
		return nil, nil, err
	}
	live, err := pgx.CollectRows(rows, pgx.RowToAddrOfStructByName[lockedRow])
	if err != nil {
		return nil, nil, err
	}
	for i := range live {
		did, err := cancelLive(ctx, tx, live[i:i+1])
		if err != nil {
			return nil, nil, err
		}
		if did == CancelRequested {
			requested = append(requested, live[i].ID)
		}
		if did == CancelEnded {
			cancelled := transition{row: live[i], verdict: job.Verdict{State: job.Cancelled}}
			ended = append(ended, cancelled.change(job.Cancel))
		}
	}
	return ended, requested, nil
}
