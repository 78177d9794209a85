//go:build !mutant_key_tenant

package queue

// key is the scope of an Idempotency-Key: what one tenant's user sends is never
// answered with what another was told.
func (s *Submission) key() idempotencyKey {
	return idempotencyKey{s.Tenant, s.User, s.Idempotency.Operation, s.Idempotency.Key}
}
