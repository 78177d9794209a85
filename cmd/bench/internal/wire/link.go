package wire

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Link is one sender's connection to an endpoint, with its buffers. It is not for concurrent use.
type Link struct {
	endpoint Endpoint
	conn     conn
	failed   Failed
	begun    time.Time
	request  []byte
	scratch  []byte
	leases   []Lease
	// PauseFor is how long the server asked to wait after it refused the last request; 0 if it did not.
	PauseFor time.Duration
}

// Failed is called for n jobs, or one request, that ended in an error, with the problem's code and one
// example of its text.
type Failed func(code string, n int, example string)

// NewLink makes a link that dials at its first request. Payloads hold times since begun.
func NewLink(to Endpoint, begun time.Time, report Failed) *Link {
	return &Link{endpoint: to, conn: conn{base: to.address()}, failed: report, begun: begun}
}

// Close closes the connection, if there is one.
func (l *Link) Close() { l.conn.close() }

// Submit returns how many jobs were accepted.
func (l *Link) Submit(ctx context.Context, who []Caller, ask Submit) int {
	l.request = l.endpoint.submit(l.request[:0], &l.scratch, who, ask)
	wanted := ask.Jobs * len(who)
	answer, ok := l.exchange(ctx, wanted, 0)
	if !ok {
		return 0
	}
	accepted := countSubmitted(answer, ask.Batch)
	l.explain(answer, wanted-accepted)
	return accepted
}

// Claim returns the leased jobs. The slice is valid until the next claim.
func (l *Link) Claim(ctx context.Context, who *Caller, ask Claim) []Lease {
	l.request = l.endpoint.claim(l.request[:0], &l.scratch, who, ask)
	l.leases = l.leases[:0]
	answer, ok := l.exchange(ctx, 1, ask.Wait)
	if !ok {
		return nil
	}
	var err error
	if l.leases, err = findLeases(answer.body, l.begun, l.leases); err != nil {
		l.failed("client", 1, err.Error())
		return nil
	}
	if len(l.leases) == 0 {
		if byCode, _ := problems(answer.body); len(byCode) > 0 { // core's refusal of the one item
			l.explain(answer, 1)
		}
	}
	return l.leases
}

// Complete returns how many jobs were completed.
func (l *Link) Complete(ctx context.Context, who *Caller, leases []Lease) int {
	l.request = l.endpoint.complete(l.request[:0], &l.scratch, who, leases)
	answer, ok := l.exchange(ctx, len(leases), 0)
	if !ok {
		return 0
	}
	completed := countCompleted(answer.body)
	l.explain(answer, len(leases)-completed)
	return completed
}

// exchange makes one call. If it fails as a whole, it counts as a failure of all n jobs in it.
func (l *Link) exchange(ctx context.Context, n int, wait time.Duration) (reply, bool) {
	answer, err := l.conn.exchange(ctx, l.request, wait)
	switch {
	case err != nil && ctx.Err() != nil: // the run has ended, not the server
		return reply{}, false
	case err != nil:
		l.failed("no_answer", n, err.Error())
		l.PauseFor = 10 * time.Millisecond // against a busy loop while the server is unreachable
		return reply{}, false
	case answer.status != http.StatusOK && answer.status != http.StatusAccepted:
		l.explain(answer, n)
		l.PauseFor = time.Second
		if after, err := strconv.Atoi(answer.header.Get("Retry-After")); err == nil {
			l.PauseFor = time.Duration(after) * time.Second
		}
		return reply{}, false
	}
	l.PauseFor = 0
	return answer, true
}

// explain counts jobs that were refused, by the codes in the answer.
func (l *Link) explain(answer reply, missing int) {
	if missing <= 0 {
		return
	}
	byCode, example := problems(answer.body)
	counted := 0
	for code, n := range byCode {
		if len(byCode) == 1 {
			n = missing // a refusal of the whole stands for each job in it
		}
		l.failed(code, n, example)
		counted += n
	}
	if counted < missing {
		l.failed(fmt.Sprintf("status_%d", answer.status), missing-counted, "")
	}
}
