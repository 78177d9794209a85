// Package submit stores jobs: what callers submit together is one commit. Submissions with an
// Idempotency-Key, or with jobs under a cap, go under their tenant's lock; a dedupe_key may need
// several rounds.
package submit
