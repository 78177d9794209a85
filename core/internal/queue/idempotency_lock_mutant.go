//go:build mutant_idempotency_race

package queue

import "github.com/forgequeue/forgequeue/core/internal/tenant"

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// Look up, then insert, with nothing to keep two equal submits apart.
func guarded([]Submission) []tenant.ID { return nil }

const rememberSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())
ON CONFLICT DO NOTHING`
