package invariants

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// digest is short, and long enough for a run.
func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}

func markIn(text []byte) string { return string(marks.Find(text)) }

// epochOf reads the epoch in a lease token, which clients need not understand.
func epochOf(token string) int64 {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) != 56 {
		return 0
	}
	return int64(binary.BigEndian.Uint64(raw[32:40]))
}

// asked makes events of a request; there is always one.
func asked(request *http.Request, body []byte) []Event {
	parts := strings.Split(strings.TrimPrefix(request.URL.Path, "/v1/"), "/")
	key := request.Header.Get("Idempotency-Key")
	post := request.Method == http.MethodPost
	switch {
	case post && len(parts) == 1 && parts[0] == "jobs":
		return []Event{submitted(body, key, digest(body))}
	case post && len(parts) == 2 && parts[0] == "jobs" && parts[1] == "batch":
		var batch struct{ Jobs []json.RawMessage }
		if json.Unmarshal(body, &batch) != nil || len(batch.Jobs) == 0 {
			break
		}
		events := make([]Event, len(batch.Jobs))
		whole := digest(body)
		for i, job := range batch.Jobs {
			events[i] = submitted(job, key, whole)
		}
		return events
	case post && len(parts) == 1 && parts[0] == "claims":
		return []Event{{Op: OpClaim}}
	case post && len(parts) == 3 && parts[0] == "workers" && parts[2] == "heartbeat":
		var beat api.HeartbeatRequest
		_ = json.Unmarshal(body, &beat) // a malformed one is refused, and says so
		events := []Event{{Op: OpHeartbeat}}
		for _, lease := range beat.Leases {
			events = append(events, Event{Op: OpHeartbeat, Job: lease.JobID, Token: lease.LeaseToken, Epoch: epochOf(lease.LeaseToken)})
		}
		return events
	case request.Method == http.MethodGet && len(parts) == 2 && parts[0] == "jobs":
		return []Event{{Op: OpRead, Job: parts[1]}}
	case post && len(parts) == 3 && parts[0] == "jobs" && parts[2] == "cancel":
		return []Event{{Op: OpCancel, Job: parts[1]}}
	case post && len(parts) == 3 && parts[0] == "jobs" && isOutcome(parts[2]):
		var said struct {
			LeaseToken string `json:"lease_token"`
		}
		_ = json.Unmarshal(body, &said) // likewise
		return []Event{{
			Op: OpOutcome, Job: parts[1], Kind: parts[2], Token: said.LeaseToken, Epoch: epochOf(said.LeaseToken), Body: digest(body),
		}}
	case post && len(parts) == 1 && parts[0] == "outcomes":
		var all struct{ Outcomes []json.RawMessage }
		if json.Unmarshal(body, &all) != nil || len(all.Outcomes) == 0 {
			break
		}
		events := make([]Event, len(all.Outcomes))
		for i, raw := range all.Outcomes {
			var one api.OutcomeRequest
			_ = json.Unmarshal(raw, &one) // likewise
			events[i] = Event{
				Op: OpOutcome, Job: one.JobID, Kind: one.Kind, Token: one.LeaseToken, Epoch: epochOf(one.LeaseToken), Body: digest(raw),
			}
		}
		return events
	}
	return []Event{{Op: OpOther}}
}

func isOutcome(word string) bool {
	switch word {
	case api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease, api.KindWait:
		return true
	}
	return false
}

func submitted(job []byte, key, body string) Event {
	var said struct {
		Payload json.RawMessage
		Queue   string
	}
	_ = json.Unmarshal(job, &said) // a malformed one is refused, and says so
	if said.Payload == nil {
		said.Payload = json.RawMessage("null")
	}
	return Event{Op: OpSubmit, Mark: markIn(said.Payload), Payload: digest(said.Payload), Key: key, Body: body, Queue: said.Queue}
}

// answered fills in what the answer says. A malformed 2xx leaves the job out,
// which I1 and I6 then take for an answer that did not arrive.
func answered(events []Event, response *http.Response, answer []byte) []Event {
	status, code := response.StatusCode, ""
	if status >= 400 {
		var p problem.Problem
		_ = json.Unmarshal(answer, &p) // without a code it is no refusal that counts
		code = string(p.Code)
	}
	for i := range events {
		events[i].Status, events[i].Code, events[i].RetryAfter = status, code, response.Header.Get("Retry-After")
	}
	if status >= 400 {
		return events
	}
	switch events[0].Op {
	case OpSubmit:
		submitAnswer(events, answer)
	case OpClaim:
		return claimAnswer(events, answer)
	case OpHeartbeat:
		var beat api.HeartbeatResponse
		if json.Unmarshal(answer, &beat) == nil {
			for i, lease := range beat.Leases {
				if i+1 < len(events) {
					events[i+1].Lease = lease.Status
					if lease.LeaseExpiresAt != nil {
						events[i+1].LeaseEnds = lease.LeaseExpiresAt.Time
					}
				}
			}
		}
	case OpOutcome:
		outcomeAnswer(events, answer)
	case OpRead, OpCancel:
		var job struct {
			State string
			Epoch int64
		}
		if json.Unmarshal(answer, &job) == nil {
			events[0].State, events[0].Epoch = job.State, job.Epoch
		}
	}
	return events
}

func submitAnswer(events []Event, answer []byte) {
	var one api.SubmitResponse
	if json.Unmarshal(answer, &one) == nil && one.ID != "" {
		events[0].Job, events[0].State, events[0].Created = one.ID, one.State, one.CreatedAt.Time
		return
	}
	var batch api.BatchResponse
	if json.Unmarshal(answer, &batch) != nil {
		return
	}
	for _, result := range batch.Results {
		if result.Index >= len(events) {
			continue
		}
		e := &events[result.Index]
		e.Status = result.Status
		if result.Job != nil {
			e.Job, e.State = result.Job.ID, result.Job.State
		}
		if result.Problem != nil {
			e.Code = string(result.Problem.Code)
		}
	}
}

func claimAnswer(events []Event, answer []byte) []Event {
	var claimed api.ClaimResponse
	if json.Unmarshal(answer, &claimed) != nil {
		return events
	}
	for i, job := range claimed.Jobs {
		e := events[0]
		e.Index = i + 1
		e.Job, e.Owner, e.Token, e.Epoch, e.Attempt, e.MaxAttempts = job.ID, job.Tenant, job.LeaseToken, job.Epoch, job.Attempt, job.MaxAttempts
		e.LeaseEnds, e.Mark, e.Payload = job.LeaseExpiresAt.Time, markIn(job.Payload), digest(job.Payload)
		events = append(events, e)
	}
	return events
}

func outcomeAnswer(events []Event, answer []byte) {
	var batch struct {
		Results []struct {
			Index   int
			Status  int
			Outcome json.RawMessage
			Problem *problem.Problem
		}
	}
	if json.Unmarshal(answer, &batch) != nil || len(batch.Results) == 0 {
		batch.Results = batch.Results[:0]
		events[0].Answer, events[0].State = string(answer), stateOf(answer)
		return
	}
	for _, result := range batch.Results {
		if result.Index >= len(events) {
			continue
		}
		e := &events[result.Index]
		e.Status, e.Answer, e.State = result.Status, string(result.Outcome), stateOf(result.Outcome)
		if result.Problem != nil {
			e.Code = string(result.Problem.Code)
		}
	}
}

func stateOf(outcome []byte) string {
	var said struct{ State string }
	_ = json.Unmarshal(outcome, &said) // an outcome that says nothing has no state
	return said.State
}
