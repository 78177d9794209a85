// Package idempotency saves the answers to requests with an Idempotency-Key, so that a repeat gets
// the same one. Look-up and save are in the transaction of the submit, under its tenant's lock.
package idempotency

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Request is a request with an Idempotency-Key.
type Request struct {
	// Operation is the route: one key may serve two kinds of request.
	Operation string
	Key       string
	// Fingerprint is the SHA-256 of the canonical body.
	Fingerprint [32]byte
}

// Key is the scope of an Idempotency-Key: a request of one tenant's user is never answered with the
// response to another's.
type Key struct {
	Tenant               tenant.ID
	User, Operation, Key string
}

// Of is a request's key.
func (r *Request) Of(owner tenant.ID, user string) Key {
	return Key{owner, user, r.Operation, r.Key}
}

// Response is the response to a request, as it is sent.
type Response struct {
	Status int
	Body   json.RawMessage
}

// Answer is the saved response to a key's first request.
type Answer struct {
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

func (r *knownRow) answer() Answer {
	return Answer{[32]byte(r.Fingerprint), Response{r.Status, r.Body}}
}

func findArgs(asked ...Key) store.Args {
	tenants, users := make([]tenant.ID, len(asked)), make([]string, len(asked))
	operations, keys := make([]string, len(asked)), make([]string, len(asked))
	for i, key := range asked {
		tenants[i], users[i], operations[i], keys[i] = key.Tenant, key.User, key.Operation, key.Key
	}
	return store.Args{"tenants": tenants, "users": users, "operations": operations, "keys": keys}
}

// QueueFind looks for the saved answers to keys as part of a batch: the map has them once that has
// run.
func QueueFind(batch *pgx.Batch, asked []Key) map[Key]Answer {
	known := map[Key]Answer{}
	if len(asked) == 0 {
		return known
	}
	batch.Queue(findKeysSQL, findArgs(asked...)).Query(func(rows pgx.Rows) error {
		found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[knownRow])
		for _, row := range found {
			known[Key{row.TenantID, row.User, row.Operation, row.Key}] = row.answer()
		}
		return err
	})
	return known
}

// FindKey looks for the saved answer to a key without its tenant's lock: a request that is not
// committed yet is not found.
func (k *Keys) FindKey(ctx context.Context, key Key) (answer Answer, found bool, err error) {
	ctx = store.WithClass(ctx, store.ClassSubmits)
	rows, err := store.Query(ctx, k.Store, pgx.RowToStructByPos[knownRow], findKeysSQL, findArgs(key))
	if err != nil {
		return Answer{}, false, fmt.Errorf("idempotency: find key: %w", store.NothingChanged(err))
	}
	if len(rows) == 0 {
		return Answer{}, false, nil
	}
	return rows[0].answer(), true, nil
}

const saveSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`

// Save stores the answer to a key's first request, which stored these jobs.
func Save(batch *pgx.Batch, key Key, answer Answer, jobs []uuid.UUID) {
	batch.Queue(saveSQL, store.Args{
		"tenant_id": key.Tenant, "user_id": key.User, "operation": key.Operation, "key": key.Key,
		"fingerprint": answer.Fingerprint[:], "job_ids": jobs, "status": answer.Status, "answer": string(answer.Body),
	})
}
