package wire

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	jobType = "bench"
	// atDigits is the width of a time in a payload: fixed, so that it can be written
	// into a body made before.
	atDigits = 19
	// filler is repeated to fill a payload: text like that of an e-mail job.
	filler = `user@example.com welcome Ada pro 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 `
)

// Shape is a job as JSON, in the two parts around its time.
type Shape struct {
	before, after []byte
	// types, where more than 1, is from how many types a job's is drawn, and its priority from all.
	types int
	// keys, where not 0, is from how many keys a job's is drawn.
	keys int
}

// NewShape is the shape of jobs for a queue, with payloads of about payloadBytes bytes, of so many types.
func NewShape(queue string, payloadBytes, types int) Shape {
	pad := bytes.Repeat([]byte(filler), payloadBytes/len(filler)+1)
	pad = pad[:max(payloadBytes-len(`{"at":"","pad":""}`)-atDigits, 0)]
	made := Shape{
		before: fmt.Appendf(nil, `{"type":%q,"queue":%q,"payload":{"at":"`, jobType, queue),
		after:  fmt.Appendf(nil, `","pad":"%s"}}`, pad), types: types,
	}
	if types > 1 {
		made.before = fmt.Appendf(nil, `,"queue":%q,"payload":{"at":"`, queue)
	}
	return made
}

// WithKeys is the shape of jobs with one of n keys each; without for 0.
func (s Shape) WithKeys(n int) Shape {
	s.keys = n
	return s
}

// appendJob writes a job with the intended start of its submit.
func (s Shape) appendJob(to []byte, at time.Duration) []byte {
	if s.types > 1 {
		to = strconv.AppendInt(append(to, `{"type":"`+jobType+`-`...), rand.Int64N(int64(s.types)), 10)   //nolint:gosec // a load, no secret
		to = strconv.AppendInt(append(to, `","priority":`...), rand.Int64N(int64(api.MaxPriority+1)), 10) //nolint:gosec // likewise
	}
	to = append(to, s.before...)
	to = appendDigits(to, int64(at), atDigits)
	to = append(to, s.after...)
	if s.keys > 0 {
		to = strconv.AppendInt(append(to[:len(to)-1], `,"key":"k`...), rand.Int64N(int64(s.keys)), 10) //nolint:gosec // likewise
		to = append(to, `"}`...)
	}
	return to
}

func (s Shape) appendJobs(to []byte, at time.Duration, n int) []byte {
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

// appendIDs writes n new job ids: UUIDv7, as the gateway makes them.
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

func appendOutcomes(to []byte, leases []Lease) []byte {
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

func appendClaim(to []byte, ask Claim) []byte {
	return fmt.Appendf(to, `{"worker_id":%q,"queues":[%q],"max":%d,"wait_ms":%d}`, ask.Worker, ask.Queue, ask.Max, ask.Wait.Milliseconds())
}

func appendRequest(to []byte, base *url.URL, path, headers string, body []byte) []byte {
	to = append(append(append(to, "POST "...), base.Path...), path...)
	to = append(append(append(to, " HTTP/1.1\r\nHost: "...), base.Host...), "\r\nContent-Type: application/json\r\n"...)
	to = strconv.AppendInt(append(append(to, headers...), "Content-Length: "...), int64(len(body)), 10)
	return append(append(to, "\r\n\r\n"...), body...)
}
