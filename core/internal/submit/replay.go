package submit

import (
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// keysOf are the idempotency keys of submissions that have one.
func keysOf(submissions []Submission) (keys []IdempotencyKey) {
	for i := range submissions {
		if submissions[i].Idempotency != nil {
			keys = append(keys, submissions[i].key())
		}
	}
	return keys
}

// sortByKey answers, of the submissions that all names, those with a saved response. The
// others are to be stored (fresh), or repeat one of these in the same flush (follower → first).
func sortByKey(submissions []Submission, all []int, known map[IdempotencyKey]SavedAnswer, answers []Answer) (fresh []int, followers map[int]int) {
	firsts := map[IdempotencyKey]int{}
	followers = map[int]int{}
	for _, i := range all {
		s := &submissions[i]
		if s.Idempotency == nil {
			fresh = append(fresh, i)
			continue
		}
		if saved, ok := known[s.key()]; ok {
			answers[i] = Replay(s.Idempotency, saved)
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

// Replay answers a repeat of a request by the answer to the first one.
func Replay(request *Idempotency, saved SavedAnswer) Answer {
	if saved.Fingerprint != request.Fingerprint {
		return Answer{Problem: mismatch()}
	}
	return Answer{Saved: &saved.Response, Replayed: true}
}

// follow answers the second of two equal keys in one flush by the first's answer.
func follow(s, first *Submission, answered *Answer) Answer {
	if s.Idempotency.Fingerprint != first.Idempotency.Fingerprint {
		return Answer{Problem: mismatch()}
	}
	if answered.Saved == nil { // nothing was stored, so nothing is replayed: equal bodies are refused alike
		return Answer{Batch: answered.Batch, Jobs: answered.Jobs, Problem: answered.Problem}
	}
	return Answer{Saved: answered.Saved, Replayed: true}
}

func mismatch() *problem.Problem {
	return problem.New(problem.IdempotencyMismatch,
		"This Idempotency-Key was already used for a request with a different body. Use a new key for a new request.")
}

// saveResponse renders the response to a submission and saves it for its key.
func saveResponse(batch *pgx.Batch, s *Submission, a *Answer) error {
	response, err := s.Render(a)
	if err != nil {
		return fmt.Errorf("render the response: %w", err)
	}
	a.Saved = &response
	ids := make([]uuid.UUID, 0, len(a.Jobs))
	for i := range a.Jobs {
		if row := a.Jobs[i].Row; row != nil {
			ids = append(ids, row.ID)
		}
	}
	saveKey(batch, s.key(), SavedAnswer{Fingerprint: s.Idempotency.Fingerprint, Response: response}, ids)
	return nil
}

func (s *Submission) key() IdempotencyKey { return s.Idempotency.Of(s.Tenant, s.User) }
