package submit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// ErrIdempotencyInFlight says that the first request with this key has not ended in time.
var ErrIdempotencyInFlight = errors.New("submit: request with this idempotency key under way")

// Idempotency is the Idempotency-Key of a request. The response is saved for it, so that a repeat gets the same one.
// Look-up and save are in the transaction of the submit, under its tenant's lock.
type Idempotency struct {
	// Operation is the route: one key may serve two kinds of request.
	Operation string
	Key       string
	// Fingerprint is the SHA-256 of the canonical body.
	Fingerprint [32]byte
}

// IdempotencyKey is the scope of an Idempotency-Key: a request of one tenant's user is never answered with the
// response to another's.
type IdempotencyKey struct {
	Tenant               tenant.ID
	User, Operation, Key string
}

// Of is a request's key.
func (r *Idempotency) Of(owner tenant.ID, user string) IdempotencyKey {
	return IdempotencyKey{owner, user, r.Operation, r.Key}
}

// Response is the response to a request, as it is sent.
type Response struct {
	Status int
	Body   json.RawMessage
}

// SavedAnswer is the saved response to a key's first request.
type SavedAnswer struct {
	// Fingerprint is the first request's.
	Fingerprint [32]byte
	Response
}

const findKeysSQL = `
SELECT known.*
FROM unnest(@tenants::uuid[], @users::text[], @operations::text[], @keys::text[]) AS asked(tenant_id, user_id, operation, key)
CROSS JOIN LATERAL (
  SELECT k.tenant_id, k.user_id, k.operation, k.key, k.fingerprint, k.status, k.answer
  FROM idempotency_keys k
  WHERE k.tenant_id = asked.tenant_id AND k.user_id = asked.user_id AND k.operation = asked.operation AND k.key = asked.key
  -- one probe for each, with all statistics
  LIMIT 1
) AS known`

type knownRow struct {
	TenantID             tenant.ID
	User, Operation, Key string
	Fingerprint          []byte
	Status               int
	Body                 []byte
}

func (r *knownRow) answer() SavedAnswer {
	return SavedAnswer{[32]byte(r.Fingerprint), Response{r.Status, r.Body}}
}

func findArgs(asked ...IdempotencyKey) store.Args {
	tenants, users := make([]tenant.ID, len(asked)), make([]string, len(asked))
	operations, keys := make([]string, len(asked)), make([]string, len(asked))
	for i, key := range asked {
		tenants[i], users[i], operations[i], keys[i] = key.Tenant, key.User, key.Operation, key.Key
	}
	return store.Args{"tenants": tenants, "users": users, "operations": operations, "keys": keys}
}

// queueFindKeys looks for the saved answers to keys as part of a batch: the map has them once that has
// run.
func queueFindKeys(batch *pgx.Batch, asked []IdempotencyKey) map[IdempotencyKey]SavedAnswer {
	known := map[IdempotencyKey]SavedAnswer{}
	if len(asked) == 0 {
		return known
	}
	batch.Queue(findKeysSQL, findArgs(asked...)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[knownRow])
		for _, row := range found {
			known[IdempotencyKey{row.TenantID, row.User, row.Operation, row.Key}] = row.answer()
		}
		return err
	})
	return known
}

// FindKey looks for the saved answer to a key without its tenant's lock: a request that is not
// committed yet is not found.
func (s *Submitter) FindKey(ctx context.Context, key IdempotencyKey) (answer SavedAnswer, found bool, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, s.Store, pgx.RowToStructByPos[knownRow], findKeysSQL, findArgs(key))
	if err != nil {
		return SavedAnswer{}, false, fmt.Errorf("submit: find key: %w", store.NotApplied(err))
	}
	if len(rows) == 0 {
		return SavedAnswer{}, false, nil
	}
	return rows[0].answer(), true, nil
}

const saveKeySQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`

// saveKey stores the answer to a key's first request, which stored these jobs.
func saveKey(batch *pgx.Batch, key IdempotencyKey, answer SavedAnswer, jobs []uuid.UUID) {
	batch.Queue(saveKeySQL, store.Args{
		"tenant_id": key.Tenant, "user_id": key.User, "operation": key.Operation, "key": key.Key,
		"fingerprint": answer.Fingerprint[:], "job_ids": jobs, "status": answer.Status, "answer": string(answer.Body),
	})
}
