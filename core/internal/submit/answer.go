package submit

import (
	"encoding/json"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/forgequeue/forgequeue/core/internal/queue"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Answer is what one submission's caller is told.
type Answer struct {
	// Status and Body are the HTTP answer as it is sent and remembered.
	Status int
	Body   json.RawMessage
	// Problem stands in their place where nothing was accepted.
	Problem *problem.Problem
	// Replayed: the answer is a remembered one, nothing was stored.
	Replayed bool
	// Ready are the jobs that can now be claimed.
	Ready []queue.Ready
	// Accepted counts the jobs that were stored.
	Accepted int
	// Scheduled says that a job waits for its time.
	Scheduled bool
}

// answer makes the caller's answer of what became of its jobs.
func answer(s *Submission, outcomes []stored) Answer {
	var made Answer
	for i := range outcomes {
		o := &outcomes[i]
		if o.row == nil || o.deduplicated {
			continue
		}
		made.Accepted++
		switch o.row.State {
		case api.StateQueued:
			made.Ready = append(made.Ready, queue.Ready{Lane: o.row.LaneID, Priority: o.row.Priority, At: o.row.CreatedAt})
		case api.StateScheduled:
			made.Scheduled = true
		}
	}
	if s.Batch {
		return batchAnswer(s, outcomes, made)
	}
	return singleAnswer(s, outcomes[0], made)
}

func singleAnswer(s *Submission, o stored, made Answer) Answer {
	if o.refused != nil {
		made.Problem = o.refused
		return made
	}
	made.Status = http.StatusAccepted
	if o.deduplicated {
		made.Status = http.StatusOK
	}
	warnings := s.Warnings
	if warnings == nil {
		warnings = []string{}
	}
	made.Body = encodeAnswer(api.SubmitResponse{JobSummary: o.row.Summary(), Warnings: warnings, Deduplicated: o.deduplicated})
	return made
}

func batchAnswer(s *Submission, outcomes []stored, made Answer) Answer {
	response := api.BatchResponse{Results: make([]api.BatchResult, len(outcomes))}
	var firstRefusal *problem.Problem
	for i, o := range outcomes {
		result := api.BatchResult{Index: i, Status: http.StatusAccepted}
		if o.refused != nil {
			result.Status, result.Problem = o.refused.Status, o.refused
			response.Rejected++
			if firstRefusal == nil {
				firstRefusal = o.refused
			}
		} else {
			if o.deduplicated {
				result.Status = http.StatusOK
			}
			result.Job = &api.BatchJob{ID: o.row.ID.String(), State: o.row.State, RunAt: &api.Time{Time: o.row.RunAt}}
			response.Accepted++
		}
		response.Results[i] = result
	}
	if s.Atomic && firstRefusal != nil {
		made.Problem = firstRefusal
		return made
	}
	made.Status, made.Body = http.StatusOK, encodeAnswer(response)
	return made
}

// remembered says whether an answer is kept for its Idempotency-Key: refusals are
// not, a batch is as soon as one of its jobs was accepted.
func (a *Answer) remembered(outcomes []stored) bool {
	if a.Problem != nil {
		return false
	}
	for i := range outcomes {
		if outcomes[i].row != nil {
			return true
		}
	}
	return false
}

// encodeAnswer writes what encode would, in less than half the time.
func encodeAnswer(value any) []byte {
	text, err := jsonv2.Marshal(value, jsonv2.FormatNilSliceAsNull(true), jsonv2.FormatNilMapAsNull(true), jsonv2.Deterministic(true),
		jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err) // as there
	}
	return text
}
