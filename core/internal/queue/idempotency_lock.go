//go:build !mutant_idempotency_race

package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// A keyed submit holds its tenant's lock, so that the look-up is a plain read:
// whoever had the lock before has committed or is gone. The look-up is a later
// statement than the lock, because a statement's snapshot is older than its waits.
const lockTenantsSQL = `SELECT pg_advisory_xact_lock(key) FROM unnest(@keys::bigint[]) AS key`

// lockTimeoutSQL ends the wait for the lock in time to say so.
const lockTimeoutSQL = `SELECT set_config('lock_timeout', @timeout, true)`

func lockTenants(ctx context.Context, tx pgx.Tx, submissions []Submission) error {
	var tenants []tenant.ID
	for i := range submissions {
		if submissions[i].Idempotency != nil {
			tenants = append(tenants, submissions[i].Tenant)
		}
	}
	batch := &pgx.Batch{}
	batch.Queue(lockTimeoutSQL, pgx.StrictNamedArgs{"timeout": lockTimeout(ctx)})
	batch.Queue(lockTenantsSQL, pgx.StrictNamedArgs{"keys": lockKeys(lockSubmit, tenants)})
	err := tx.SendBatch(ctx, batch).Close()
	var refused *pgconn.PgError
	if errors.As(err, &refused) && refused.Code == "55P03" { // lock_not_available
		return ErrIdempotencyInFlight
	}
	return err
}

// lockTimeout is the time left to the request, in PostgreSQL's spelling, less
// what the answer needs to get back.
func lockTimeout(ctx context.Context) string {
	const margin, most = 200 * time.Millisecond, 10 * time.Second
	left := most
	if deadline, ok := ctx.Deadline(); ok {
		left = min(most, time.Until(deadline)-margin)
	}
	return strconv.FormatInt(max(left.Milliseconds(), 1), 10) + "ms"
}

const rememberSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`
