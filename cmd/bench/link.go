package bench

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// link is one sender's way to the server: its connection and its buffers. It tells
// the recorder what fails.
type link struct {
	endpoint endpoint
	conn     conn
	rec      *recorder
	begun    time.Time
	request  []byte
	scratch  []byte
	leases   []lease
	pauseFor time.Duration // after a refusal, as the server asked
}

func (r *run) newLink() *link {
	return &link{endpoint: r.endpoint, conn: conn{base: r.endpoint.address()}, rec: r.rec, begun: r.begun}
}

func (l *link) close() { l.conn.close() }

// submit gives how many jobs were accepted.
func (l *link) submit(ctx context.Context, who []caller, ask submitAsk) int {
	l.request = l.endpoint.submit(l.request[:0], &l.scratch, who, ask)
	wanted := ask.jobs * len(who)
	answer, ok := l.exchange(ctx, wanted, 0)
	if !ok {
		return 0
	}
	accepted := countSubmitted(answer, ask.batch)
	l.explain(answer, wanted-accepted)
	return accepted
}

// claim gives the leased jobs; the slice is the link's, until the next claim.
func (l *link) claim(ctx context.Context, who *caller, ask claimAsk) []lease {
	l.request = l.endpoint.claim(l.request[:0], &l.scratch, who, ask)
	l.leases = l.leases[:0]
	answer, ok := l.exchange(ctx, 1, ask.wait)
	if !ok {
		return nil
	}
	var err error
	if l.leases, err = findLeases(answer.body, l.begun, l.leases); err != nil {
		l.rec.failed("client", 1, err.Error())
		return nil
	}
	if len(l.leases) == 0 {
		if byCode, _ := problems(answer.body); len(byCode) > 0 { // core's refusal of the one item
			l.explain(answer, 1)
		}
	}
	return l.leases
}

// complete gives how many leases were ended well.
func (l *link) complete(ctx context.Context, who *caller, leases []lease) int {
	l.request = l.endpoint.complete(l.request[:0], &l.scratch, who, leases)
	answer, ok := l.exchange(ctx, len(leases), 0)
	if !ok {
		return 0
	}
	completed := countCompleted(answer.body)
	l.explain(answer, len(leases)-completed)
	return completed
}

// exchange makes one call; what fails as a whole counts for all n jobs in it.
func (l *link) exchange(ctx context.Context, n int, wait time.Duration) (reply, bool) {
	answer, err := l.conn.exchange(ctx, l.request, wait)
	switch {
	case err != nil && ctx.Err() != nil: // the run has ended, not the server
		return reply{}, false
	case err != nil:
		l.rec.failed("no_answer", n, err.Error())
		l.pauseFor = 10 * time.Millisecond // a server that is away is not to be asked ten thousand times
		return reply{}, false
	case answer.status != http.StatusOK && answer.status != http.StatusAccepted:
		l.explain(answer, n)
		l.pauseFor = time.Second
		if after, err := strconv.Atoi(answer.header.Get("Retry-After")); err == nil {
			l.pauseFor = time.Duration(after) * time.Second
		}
		return reply{}, false
	}
	l.pauseFor = 0
	return answer, true
}

// explain counts jobs that were refused, by the codes in the answer.
func (l *link) explain(answer reply, missing int) {
	if missing <= 0 {
		return
	}
	byCode, example := problems(answer.body)
	counted := 0
	for code, n := range byCode {
		if len(byCode) == 1 {
			n = missing // a refusal of the whole stands for each job in it
		}
		l.rec.failed(code, n, example)
		counted += n
	}
	if counted < missing {
		l.rec.failed(fmt.Sprintf("status_%d", answer.status), missing-counted, "")
	}
}
