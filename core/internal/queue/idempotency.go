package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Idempotency names a submission, so that its repeat gets the same answer.
type Idempotency struct {
	// Operation is the route: one key may serve two kinds of request.
	Operation string
	Key       string
	// Fingerprint is the SHA-256 of the canonical body.
	Fingerprint [32]byte
}

type idempotencyKey struct {
	tenant               tenant.ID
	user, operation, key string
}

func (s *Submission) key() idempotencyKey {
	return idempotencyKey{s.Tenant, s.User, s.Idempotency.Operation, s.Idempotency.Key}
}

func anyKeyed(submissions []Submission) bool {
	for i := range submissions {
		if submissions[i].Idempotency != nil {
			return true
		}
	}
	return false
}

// A keyed submit holds its tenant's lock, so that the look-up is a plain read:
// whoever had the lock before has committed or is gone. The look-up is a later
// statement than the lock, because a statement's snapshot is older than its waits.
const lockTenantsSQL = `SELECT pg_advisory_xact_lock(key) FROM unnest(@keys::bigint[]) AS key`

// lockTimeoutSQL ends the wait for the lock in time to say so.
const lockTimeoutSQL = `SELECT set_config('lock_timeout', @timeout, true)`

const findKeysSQL = `
SELECT k.tenant_id, k.user_id, k.operation, k.key, k.fingerprint, k.status, k.answer
FROM idempotency_keys k
WHERE (k.tenant_id, k.user_id, k.operation, k.key) IN (
  SELECT * FROM unnest(@tenants::uuid[], @users::text[], @operations::text[], @keys::text[]))`

const rememberSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`

// remembrance is a remembered answer.
type remembrance struct {
	fingerprint [32]byte
	status      int
	answer      []byte
}

// submitKeyed settles submissions of which some carry a key: remembered ones are
// answered, the others stored, key and jobs in one commit (D4).
func submitKeyed(ctx context.Context, tx pgx.Tx, submissions []Submission, answers []SubmitAnswer) error {
	if err := lockTenants(ctx, tx, submissions); err != nil {
		return err
	}
	known, err := findKeys(ctx, tx, submissions)
	if err != nil {
		return err
	}
	fresh, followers := sortByKey(submissions, known, answers)

	chosen := make([]Submission, len(fresh))
	for i, index := range fresh {
		chosen[i] = submissions[index]
	}
	outcomes, err := insertJobs(ctx, tx, chosen)
	if err != nil {
		return err
	}
	for i, index := range fresh {
		answers[index] = answer(&chosen[i], outcomes[i])
		if chosen[i].Idempotency == nil || !answers[index].remembered(outcomes[i]) {
			continue
		}
		if err := remember(ctx, tx, &chosen[i], &answers[index], outcomes[i]); err != nil {
			return err
		}
	}
	for follower, first := range followers {
		answers[follower] = follow(&submissions[follower], &submissions[first], &answers[first])
	}
	return nil
}

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

func findKeys(ctx context.Context, tx pgx.Tx, submissions []Submission) (map[idempotencyKey]remembrance, error) {
	var tenants []tenant.ID
	var users, operations, keys []string
	for i := range submissions {
		if submissions[i].Idempotency == nil {
			continue
		}
		key := submissions[i].key()
		tenants, users = append(tenants, key.tenant), append(users, key.user)
		operations, keys = append(operations, key.operation), append(keys, key.key)
	}
	rows, err := tx.Query(ctx, findKeysSQL, pgx.StrictNamedArgs{
		"tenants": tenants, "users": users, "operations": operations, "keys": keys,
	})
	if err != nil {
		return nil, err
	}
	known := map[idempotencyKey]remembrance{}
	var key idempotencyKey
	var fingerprint, body []byte
	var status int
	_, err = pgx.ForEachRow(rows, []any{&key.tenant, &key.user, &key.operation, &key.key, &fingerprint, &status, &body}, func() error {
		known[key] = remembrance{[32]byte(fingerprint), status, append([]byte(nil), body...)}
		return nil
	})
	return known, err
}

// sortByKey answers the remembered submissions, and parts the others into those
// to be stored and those that repeat one of them within this very flush
// (follower → first).
func sortByKey(submissions []Submission, known map[idempotencyKey]remembrance, answers []SubmitAnswer) (fresh []int, followers map[int]int) {
	firsts := map[idempotencyKey]int{}
	followers = map[int]int{}
	for i := range submissions {
		s := &submissions[i]
		if s.Idempotency == nil {
			fresh = append(fresh, i)
			continue
		}
		if before, ok := known[s.key()]; ok {
			answers[i] = replay(s, before)
			continue
		}
		if first, ok := firsts[s.key()]; ok {
			followers[i] = first
			continue
		}
		firsts[s.key()] = i
		fresh = append(fresh, i)
	}
	return fresh, followers
}

func replay(s *Submission, before remembrance) SubmitAnswer {
	if before.fingerprint != s.Idempotency.Fingerprint {
		return SubmitAnswer{Problem: mismatch()}
	}
	return SubmitAnswer{Status: before.status, Body: before.answer, Replayed: true}
}

// follow answers the second of two equal keys in one flush by the first's answer.
func follow(s, first *Submission, answered *SubmitAnswer) SubmitAnswer {
	if s.Idempotency.Fingerprint != first.Idempotency.Fingerprint {
		return SubmitAnswer{Problem: mismatch()}
	}
	if answered.Problem != nil { // nothing was stored, so nothing is replayed: equal bodies are refused alike
		return SubmitAnswer{Problem: answered.Problem}
	}
	return SubmitAnswer{Status: answered.Status, Body: answered.Body, Replayed: true}
}

func mismatch() *problem.Problem {
	return problem.New(problem.IdempotencyMismatch,
		"This Idempotency-Key was already used for a request with another body. Use a new key for a new request.")
}

func remember(ctx context.Context, tx pgx.Tx, s *Submission, a *SubmitAnswer, outcomes []stored) error {
	ids := make([]uuid.UUID, 0, len(outcomes))
	for i := range outcomes {
		if outcomes[i].row != nil {
			ids = append(ids, outcomes[i].row.ID)
		}
	}
	_, err := tx.Exec(ctx, rememberSQL, pgx.StrictNamedArgs{
		"tenant_id": s.Tenant, "user_id": s.User, "operation": s.Idempotency.Operation, "key": s.Idempotency.Key,
		"fingerprint": s.Idempotency.Fingerprint[:], "job_ids": ids, "status": a.Status, "answer": string(a.Body),
	})
	return err
}
