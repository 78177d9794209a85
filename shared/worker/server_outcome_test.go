package worker_test

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func (s *server) oneOutcome(w http.ResponseWriter, r *http.Request) {
	var body api.OutcomeRequest
	s.read(r, &body)
	body.JobID, body.Kind = r.PathValue("id"), r.PathValue("kind")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes = append(s.flushes, 1)
	answer, refusal := s.accept(body)
	if refusal != nil {
		refusal.Write(w)
		return
	}
	reply(w, answer)
}

func (s *server) manyOutcomes(w http.ResponseWriter, r *http.Request) {
	var request api.OutcomesRequest
	s.read(r, &request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flushes = append(s.flushes, len(request.Outcomes))
	answer := api.OutcomesResponse{}
	for i, body := range request.Outcomes {
		result := api.OutcomeResult{Index: i, Status: http.StatusOK}
		if result.Outcome, result.Problem = s.accept(body); result.Problem != nil {
			result.Status = result.Problem.Status
		}
		answer.Results = append(answer.Results, result)
	}
	if s.retell != nil {
		s.retell(&answer)
	}
	reply(w, answer)
}

// accept takes one outcome, whichever way it came; s.mu is held.
func (s *server) accept(body api.OutcomeRequest) (*api.Outcome, *problem.Problem) {
	s.reap()
	id, kind := body.JobID, body.Kind
	body.JobID, body.Kind = "", ""
	j := s.find(id)
	said, _ := json.Marshal(body)
	same := kind + string(said)
	switch {
	case j == nil:
		return nil, problem.New(problem.NotFound, "")
	case j.last == same: // a repeat is answered like the first
	case j.state != api.StateRunning || j.LeaseToken != body.LeaseToken:
		return nil, problem.New(problem.LeaseLost, "")
	default:
		j.last = same
		s.running--
		s.settle(j, kind, body)
		s.outcomes = append(s.outcomes, outcome{kind, id, body, s.now().Sub(j.expires.Add(-s.visibility))})
	}
	return &api.Outcome{JobID: id, State: j.state, Attempt: j.Attempt, Epoch: j.Epoch, RunAt: j.runAt, DeadReason: j.deadReason}, nil
}

// settle leaves jobs that wait waiting, and failed and snoozed jobs scheduled for ever: the tests look at
// the outcome, not at the backoff. It tells when they would run.
func (s *server) settle(j *job, kind string, body api.OutcomeRequest) {
	after := func(ms *int64) *api.Time {
		at := api.At(s.now().Add(time.Duration(*ms) * time.Millisecond))
		return &at
	}
	j.runAt, j.deadReason = nil, nil
	switch kind {
	case api.KindComplete:
		j.state = api.StateCompleted
	case api.KindRelease:
		j.state = api.StateQueued
		j.Attempt--
		s.wake()
	case api.KindWait:
		j.state, j.runAt = api.StateWaiting, after(body.TimeoutMS)
		j.Attempt--
		if body.Checkpoint != nil {
			j.Checkpoint = body.Checkpoint
		}
	case api.KindSnooze:
		j.state, j.runAt = api.StateScheduled, after(body.DelayMS)
		j.Attempt--
	default:
		if body.Permanent {
			reason := "permanent"
			j.state, j.deadReason = api.StateDeadLetter, &reason
			return
		}
		backoff := int64(5000)
		if body.RetryAfterMS != nil {
			backoff = *body.RetryAfterMS
		}
		j.state, j.runAt = api.StateScheduled, after(&backoff)
	}
}
