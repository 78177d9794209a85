//go:build !mutant_idempotency_race

package queue

import "github.com/forgequeue/forgequeue/core/internal/tenant"

// guarded are the tenants whose submits go one at a time: those that sent an
// Idempotency-Key, so that its look-up is a plain read, and those with a cap, so
// that nobody else adds to their counts meanwhile.
func guarded(submissions []Submission) []tenant.ID {
	var tenants []tenant.ID
	for i := range submissions {
		if submissions[i].Guarded() {
			tenants = append(tenants, submissions[i].Tenant)
		}
	}
	return tenants
}

const rememberSQL = `
INSERT INTO idempotency_keys (tenant_id, user_id, operation, key, fingerprint, job_ids, status, answer, created_at)
VALUES (@tenant_id, @user_id, @operation, @key, @fingerprint, @job_ids, @status, @answer::json, statement_timestamp())`
