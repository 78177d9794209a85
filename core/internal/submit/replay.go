package submit

import (
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/idempotency"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// keysOf are the idempotency keys of submissions that have one.
func keysOf(submissions []Submission) (keys []idempotency.Key) {
	for i := range submissions {
		if submissions[i].Idempotency != nil {
			keys = append(keys, submissions[i].key())
		}
	}
	return keys
}

// sortByKey answers those with a saved answer of the submissions that all names, and
// parts the others into those to be stored and those that repeat one of them
// within this very flush (follower → first).
func sortByKey(submissions []Submission, all []int, known map[idempotency.Key]idempotency.Answer, answers []Answer) (fresh []int, followers map[int]int) {
	firsts := map[idempotency.Key]int{}
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

func replay(s *Submission, before idempotency.Answer) Answer {
	if before.Fingerprint != s.Idempotency.Fingerprint {
		return Answer{Problem: mismatch()}
	}
	return Answer{Status: before.Status, Body: before.Body, Replayed: true}
}

// follow answers the second of two equal keys in one flush by the first's answer.
func follow(s, first *Submission, answered *Answer) Answer {
	if s.Idempotency.Fingerprint != first.Idempotency.Fingerprint {
		return Answer{Problem: mismatch()}
	}
	if answered.Problem != nil { // nothing was stored, so nothing is replayed: equal bodies are refused alike
		return Answer{Problem: answered.Problem}
	}
	return Answer{Status: answered.Status, Body: answered.Body, Replayed: true}
}

func mismatch() *problem.Problem {
	return problem.New(problem.IdempotencyMismatch,
		"This Idempotency-Key was already used for a request with another body. Use a new key for a new request.")
}

// saveReplay keeps the answer for the key's repeats.
func saveReplay(batch *pgx.Batch, s *Submission, a *Answer, outcomes []stored) {
	ids := make([]uuid.UUID, 0, len(outcomes))
	for i := range outcomes {
		if outcomes[i].row != nil {
			ids = append(ids, outcomes[i].row.ID)
		}
	}
	idempotency.Save(batch, s.key(), idempotency.Answer{Fingerprint: s.Idempotency.Fingerprint, Status: a.Status, Body: a.Body}, ids)
}

func (s *Submission) key() idempotency.Key { return s.Idempotency.Of(s.Tenant, s.User) }
