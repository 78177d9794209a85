//go:build mutant_key_tenant

package queue

// A deliberately broken rule that the tests must notice. Never built into a program.
//
// All tenants share one set of keys.
func (s *Submission) key() idempotencyKey {
	return idempotencyKey{user: s.User, operation: s.Idempotency.Operation, key: s.Idempotency.Key}
}
