package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
)

// lease is what is needed of a claimed job to end it.
type lease struct {
	id, token string
	// intended is when its submit was meant to start, on this process's clock.
	intended time.Time
}

const (
	jobType = "bench"
	// atDigits are the digits of a time in a payload: of fixed width, so that it can
	// be written into a body made before.
	atDigits = 19
	// filler is what payloads are made of: an e-mail's worth of it, like PERFORMANCE's.
	filler = `user@example.com welcome Ada pro 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 `
)

// shape is a job as JSON, in the two parts around its time.
type shape struct{ before, after []byte }

// newShape makes jobs for a queue, with payloads of about so many bytes.
func newShape(queue string, payloadBytes int) shape {
	pad := bytes.Repeat([]byte(filler), payloadBytes/len(filler)+1)
	pad = pad[:max(payloadBytes-len(`{"at":"","pad":""}`)-atDigits, 0)]
	return shape{
		before: fmt.Appendf(nil, `{"type":%q,"queue":%q,"payload":{"at":"`, jobType, queue),
		after:  fmt.Appendf(nil, `","pad":"%s"}}`, pad),
	}
}

// appendJob writes a job whose submit was meant to start then.
func (s shape) appendJob(to []byte, at time.Duration) []byte {
	to = append(to, s.before...)
	to = appendDigits(to, int64(at), atDigits)
	return append(to, s.after...)
}

func (s shape) appendJobs(to []byte, at time.Duration, n int) []byte {
	to = append(to, '[')
	for i := range n {
		if i > 0 {
			to = append(to, ',')
		}
		to = s.appendJob(to, at)
	}
	return append(to, ']')
}

// appendDigits writes a number with leading zeros.
func appendDigits(to []byte, value int64, width int) []byte {
	digits := strconv.AppendInt(nil, max(value, 0), 10)
	for range width - len(digits) {
		to = append(to, '0')
	}
	return append(to, digits...)
}

// appendIDs writes ids as the gateway draws them.
func appendIDs(to []byte, n int) []byte {
	to = append(to, '[')
	for i := range n {
		if i > 0 {
			to = append(to, ',')
		}
		id, err := uuid.NewV7()
		if err != nil {
			id = uuid.New() // no random numbers: it would have panicked before
		}
		text := id.String()
		to = append(append(append(to, '"'), text...), '"')
	}
	return append(to, ']')
}

func appendOutcomes(to []byte, leases []lease) []byte {
	to = append(to, `{"outcomes":[`...)
	for i, l := range leases {
		if i > 0 {
			to = append(to, ',')
		}
		to = append(append(to, `{"job_id":"`...), l.id...)
		to = append(append(to, `","kind":"`+api.KindComplete+`","lease_token":"`...), l.token...)
		to = append(to, `"}`...)
	}
	return append(to, `]}`...)
}

func appendClaim(to []byte, ask claimAsk) []byte {
	return fmt.Appendf(to, `{"worker_id":%q,"queues":[%q],"max":%d,"wait_ms":%d}`, ask.worker, ask.queue, ask.max, ask.wait.Milliseconds())
}

var errShape = errors.New("a claim's answer is not as expected")

// findLeases finds the jobs of a claim's answer without decoding it: a worker of
// ForgeQueue in any language does less work for each job than encoding/json would.
// The payloads are ours, so that nothing in them looks like what is searched for.
func findLeases(body []byte, begun time.Time, found []lease) ([]lease, error) {
	const idMark, tokenMark, atMark = `{"id":"`, `"lease_token":"`, `"payload":{"at":"` //nolint:gosec // no credential: what stands before one
	for {
		i := bytes.Index(body, []byte(idMark))
		if i < 0 {
			return found, nil
		}
		body = body[i+len(idMark):]
		id, rest, ok := bytes.Cut(body, []byte{'"'})
		if !ok {
			return found, errShape
		}
		token := bytes.Index(rest, []byte(tokenMark))
		if token < 0 {
			return found, errShape
		}
		one := lease{id: string(id)}
		if at := bytes.Index(rest[:token], []byte(atMark)); at >= 0 && at+len(atMark)+atDigits <= token {
			since, err := strconv.ParseInt(string(rest[at+len(atMark):at+len(atMark)+atDigits]), 10, 64)
			if err != nil {
				return found, errShape
			}
			one.intended = begun.Add(time.Duration(since))
		}
		text, rest, ok := bytes.Cut(rest[token+len(tokenMark):], []byte{'"'})
		if !ok {
			return found, errShape
		}
		one.token = string(text)
		found, body = append(found, one), rest
	}
}

// countSubmitted tells how many jobs an answer to submits says were accepted.
func countSubmitted(answer reply, batch bool) int {
	switch {
	case batch && answer.status == 200:
		return sumAfter(answer.body, []byte(`"accepted":`))
	case answer.status == 202: // a single job, at the gateway
		return 1
	}
	return bytes.Count(answer.body, []byte(`{"status":202,`)) // single jobs, at core
}

func countCompleted(body []byte) int { return bytes.Count(body, []byte(`,"status":200,"outcome":{`)) }

// sumAfter adds the numbers that follow a mark.
func sumAfter(body, mark []byte) int {
	sum := 0
	for {
		i := bytes.Index(body, mark)
		if i < 0 {
			return sum
		}
		body = body[i+len(mark):]
		n := 0
		for n < len(body) && body[n] >= '0' && body[n] <= '9' {
			n++
		}
		value, _ := strconv.Atoi(string(body[:n]))
		sum += value
	}
}

// problems counts the problems in an answer by their codes, wherever they stand,
// and gives one of them in words.
func problems(body []byte) (byCode map[string]int, example string) {
	byCode = map[string]int{}
	var value any
	if json.Unmarshal(body, &value) != nil {
		return byCode, ""
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, one := range value {
				walk(one)
			}
		case map[string]any:
			if code, ok := value["code"].(string); ok {
				byCode[code]++
				if detail, ok := value["detail"].(string); ok && example == "" {
					example = detail
				}
				return
			}
			for _, one := range value {
				walk(one)
			}
		}
	}
	walk(value)
	return byCode, example
}
