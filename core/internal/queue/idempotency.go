package queue

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

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

const findKeysSQL = `
SELECT known.*
FROM unnest(@tenants::uuid[], @users::text[], @operations::text[], @keys::text[]) AS asked(tenant_id, user_id, operation, key)
CROSS JOIN LATERAL (
  SELECT k.tenant_id, k.user_id, k.operation, k.key, k.fingerprint, k.status, k.answer
  FROM idempotency_keys k
  WHERE k.tenant_id = asked.tenant_id AND k.user_id = asked.user_id AND k.operation = asked.operation AND k.key = asked.key
  -- one probe for each, whatever the statistics say
  LIMIT 1
) AS known`

// remembrance is a remembered answer.
type remembrance struct {
	fingerprint [32]byte
	status      int
	answer      []byte
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
	if len(keys) == 0 {
		return nil, nil
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

// sortByKey answers the remembered ones of the submissions that all names, and
// parts the others into those to be stored and those that repeat one of them
// within this very flush (follower → first).
func sortByKey(submissions []Submission, all []int, known map[idempotencyKey]remembrance, answers []SubmitAnswer) (fresh []int, followers map[int]int) {
	firsts := map[idempotencyKey]int{}
	followers = map[int]int{}
	for _, i := range all {
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

// remember keeps the answer for the key's repeats.
func remember(batch *pgx.Batch, s *Submission, a *SubmitAnswer, outcomes []stored) {
	ids := make([]uuid.UUID, 0, len(outcomes))
	for i := range outcomes {
		if outcomes[i].row != nil {
			ids = append(ids, outcomes[i].row.ID)
		}
	}
	key := s.key()
	batch.Queue(rememberSQL, pgx.StrictNamedArgs{
		"tenant_id": key.tenant, "user_id": key.user, "operation": key.operation, "key": key.key,
		"fingerprint": s.Idempotency.Fingerprint[:], "job_ids": ids, "status": a.Status, "answer": string(a.Body),
	})
}

// key is the scope of an Idempotency-Key: what one tenant's user sends is never
// answered with what another was told.
func (s *Submission) key() idempotencyKey {
	return idempotencyKey{s.Tenant, s.User, s.Idempotency.Operation, s.Idempotency.Key}
}

const rememberSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`
