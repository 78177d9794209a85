package outbox

import (
	"net/http"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// What becomes of a row.
const (
	// accepted: it is a job now.
	accepted = iota
	// refused for good.
	refused
	// postponed: refused for the time being.
	postponed
)

// verdict is what the server has said of one row.
type verdict struct {
	row   row
	kind  int
	jobID string
	why   Refusal
	// wait is how long a postponed row waits.
	wait time.Duration
}

// What becomes of a batch.
const (
	// ended: each row has a verdict, and the server has either saved that answer or stored nothing.
	ended = iota
	// kept: the same batch is sent again.
	kept
	// split: the halves are batches of their own; the server cannot take them in one request.
	split
)

// judgment is what a request has come to.
type judgment struct {
	kind     int
	verdicts []verdict
	// asked: the server has said so.
	asked bool
	// wait is how long a kept batch waits.
	wait time.Duration
	// halt: the reason holds for other batches too, so that all senders wait.
	halt bool
	// unknown: this try may have been stored.
	unknown bool
	// misconfigured: nobody but a person can mend it.
	misconfigured bool
	err           string
}

// judge decides by the answer to a batch. once says that the server got the request once at most.
//
// Rows leave a batch only if the server has saved the answer under its key, which it does once a job of it was stored, or
// if no try of it can have been stored: else a try that is late could still be stored, beside the rows in another batch.
func judge(b *batch, answer api.BatchResponse, err error, once bool) judgment {
	if err != nil {
		return judgeRefusal(b, err, once)
	}
	if len(answer.Results) != len(b.rows) {
		return judgment{kind: kept, wait: backoff(b.tries), halt: true, unknown: true, misconfigured: true, err: "the server answered with another number of results"}
	}
	j := judgment{kind: ended, verdicts: make([]verdict, len(b.rows))}
	stored, later, longest := 0, 0, time.Duration(0)
	for i, result := range answer.Results {
		v := judgeRow(b.rows[i], result)
		j.verdicts[i] = v
		switch v.kind {
		case accepted:
			stored++
		case postponed:
			later++
			longest = max(longest, v.wait)
			j.err = v.why.Code + ": " + v.why.Detail
		}
	}
	if stored == 0 && later > 0 && (b.unknown || !once) {
		return judgment{kind: kept, wait: longest, err: j.err}
	}
	return j
}

// final says that the answer stands however late it is recorded: the server has saved it, or would give it again.
func (j *judgment) final() bool {
	stored, later := false, false
	for _, v := range j.verdicts {
		stored, later = stored || v.kind == accepted, later || v.kind == postponed
	}
	return j.kind == ended && (stored || !later)
}

func judgeRow(one row, result api.BatchResult) verdict {
	v := verdict{row: one, kind: refused}
	p := result.Problem
	switch {
	case result.Job != nil:
		v.kind, v.jobID = accepted, result.Job.ID
		return v
	case p == nil:
		v.why = Refusal{Code: "unreadable", Status: result.Status, Detail: "the server's answer has neither a job nor a problem"}
		return v
	case passes(p.Code, result.Status):
		v.kind, v.wait = postponed, max(asked(p), backoff(one.refusals))
	}
	v.why = refusalOf(p, result.Status)
	return v
}

func refusalOf(p *problem.Problem, status int) Refusal {
	detail := p.Detail
	for _, field := range p.Errors {
		if text := field.Field + ": " + field.Message; text != detail {
			detail += " " + text
		}
	}
	return Refusal{Code: clean(string(p.Code)), Status: status, Detail: clean(detail), RequestID: clean(p.RequestID)}
}

// clean makes a text fit to be stored: no NUL, valid UTF-8, a few thousand bytes.
func clean(text string) string {
	const most = 4 << 10
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), most)], "\uFFFD"), "\x00", "")
}

// mostAsked bounds how long a relay waits because a server, or a proxy, asks for it.
const mostAsked = time.Hour

// asked is how long the server asks to wait.
func asked(err error) time.Duration { return min(client.RetryAfter(err), mostAsked) }

// passes says whether the same job may be accepted later, without anybody changing it.
func passes(code problem.Code, status int) bool {
	return status == http.StatusTooManyRequests || status >= 500 || code == problem.TooManyLanes || code == problem.IdempotencyInFlight
}

// judgeRefusal decides by a request that has no good answer.
func judgeRefusal(b *batch, err error, once bool) judgment {
	j := judgment{kind: kept, wait: max(asked(err), backoff(b.tries-1)), halt: true, unknown: !once, err: err.Error()}
	status := client.Status(err)
	p, known := problem.From(err)
	switch {
	case status == 0: // no answer
		return j
	case !known && status == http.StatusRequestEntityTooLarge: // a proxy's limit
		return splitOrRefuse(b, j, Refusal{Code: string(problem.PayloadTooLarge), Status: status, Detail: "A proxy refused the request as too large."})
	case !known: // of a proxy, or another server
		j.unknown = j.unknown || status < 400 || status >= 500
		j.misconfigured = status < 500 && status != http.StatusTooManyRequests
		return j
	}
	switch p.Code {
	case problem.OutcomeUnknown, problem.Internal, problem.IdempotencyInFlight:
		j.unknown = true
	case problem.RateLimited:
		// The bucket of one user says nothing of the rows of others.
		if ofUsers(p) {
			j.halt = false
			if once && !b.unknown && b.mixed() {
				j.kind = split
			}
		}
	case problem.InvalidJSON, problem.InvalidRequest, problem.UnknownField, problem.PayloadTooLarge, problem.CostAboveBurst:
		return splitOrRefuse(b, j, refusalOf(p, status))
	case problem.IdempotencyMismatch:
		// Somebody has changed the rows of the batch: some of them may be jobs.
		return refuseAll(b, refusalOf(p, status))
	default:
		j.misconfigured = status < 500 && status != http.StatusTooManyRequests
	}
	return j
}

// splitOrRefuse looks for the row that the server cannot take. A request that is refused so is refused whenever it
// arrives, so that the halves may be sent.
func splitOrRefuse(b *batch, j judgment, why Refusal) judgment {
	if len(b.rows) == 1 {
		return refuseAll(b, why)
	}
	return judgment{kind: split, err: j.err}
}

func refuseAll(b *batch, why Refusal) judgment {
	j := judgment{kind: ended}
	for _, one := range b.rows {
		j.verdicts = append(j.verdicts, verdict{row: one, kind: refused, why: why})
	}
	return j
}

// ofUsers says whether only limits of users have refused a request.
func ofUsers(p *problem.Problem) bool {
	for _, policy := range p.Policies {
		if !strings.HasPrefix(policy.Name, "user-") {
			return false
		}
	}
	return len(p.Policies) > 0
}

// mixed says whether a batch has rows of several users.
func (b *batch) mixed() bool {
	for i := range b.rows {
		if one, first := b.rows[i].job.User, b.rows[0].job.User; (one == nil) != (first == nil) || one != nil && *one != *first {
			return true
		}
	}
	return false
}
