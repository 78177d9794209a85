package faults_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// poolWait is how long a request waits for a connection, by default, before it is
// refused.
const poolWait = 2 * time.Second

// Two connections and 64 callers. Somebody locks the table of jobs: whoever has a
// connection keeps it, and whoever needs one is refused soon, and told to come back.
// When the lock is gone, so are the refusals. Nothing is lost.
func TestPoolOfTwoConnections(t *testing.T) {
	furtherFault(t, "TestRollingRestart")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{Settings: map[string]string{
		"FORGEQUEUE_DATABASE_CONNS": "2", "FORGEQUEUE_DATABASE_WAIT": poolWait.String(),
	}})
	l := newLoad(t, c, 2*time.Second)
	stopWork := l.work(4, 0)
	stopCalls := l.poolCallers(64)
	var locks []lockTime
	for range lane(1, 3) {
		pace(t.Context(), time.Duration(lane(1000, 3000))*time.Millisecond)
		locks = append(locks, l.lockJobs(5*time.Second))
		pace(t.Context(), time.Duration(lane(2500, 3000))*time.Millisecond)
	}
	stopCalls()
	l.drain(90 * time.Second)
	stopWork()
	h, _ := l.check()
	seen := poolAnswers(t, h)
	for _, lock := range locks {
		if n := len(within(seen.refused, lock.from, lock.until.Add(stack.Patience(hang)))); n == 0 {
			t.Error("no fault: nobody was refused")
		}
	}
	last := locks[len(locks)-1].until
	before := within(seen.served, time.Time{}, locks[0].from)
	after := within(seen.served, last, time.Now())
	again := last
	for _, e := range within(seen.refused, last, time.Now()) { // of those asked for after it
		again = e.Done
	}
	if len(before) == 0 || len(after) == 0 || again.Sub(last) > stack.Patience(2*time.Second) {
		t.Errorf("%d calls were served before the locks, %d after them; the last refusal came %v after them", len(before), len(after), again.Sub(last))
	}
	t.Logf("%d served before, %d refused, of which %d submits; the slowest refusal %v, the slowest answer %v; the last refusal %v after the lock, and %d served",
		len(before), len(seen.refused), seen.submits, seen.slowestRefusal.Round(time.Millisecond), seen.slowest.Round(time.Millisecond),
		again.Sub(last).Round(time.Millisecond), len(after))
}

// poolCallers are callers that submit, read a job and list jobs, once each time and
// whatever the answer, until stop is called.
func (l *load) poolCallers(n int) (stop func()) {
	l.t.Helper()
	known, err := l.client().Submit(l.t.Context(), l.request())
	if err != nil {
		l.t.Fatal(err)
	}
	base := &http.Transport{MaxIdleConnsPerHost: n}
	plain := l.noted.Client(l.tenant.ID, base)
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			for ctx.Err() == nil {
				switch i % 4 {
				case 0:
					l.plainGet(plain, "/v1/jobs/"+known.ID)
				case 1:
					l.plainGet(plain, "/v1/jobs?page_size=1")
				default:
					l.plainSubmit(plain)
				}
				pace(ctx, 20*time.Millisecond)
			}
		})
	}
	return func() { cancel(); group.Wait(); base.CloseIdleConnections() }
}

// plainGet reads once.
func (l *load) plainGet(c *http.Client, path string) {
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet, l.urls[0]+path, nil)
	if err != nil {
		l.t.Error(err)
		return
	}
	request.Header.Set("Authorization", "Bearer "+l.tenant.Key)
	response, err := c.Do(request)
	if err != nil {
		l.t.Errorf("%s: %v", path, err)
		return
	}
	_ = response.Body.Close()
}

// lockTime is when a lock was held.
type lockTime struct{ from, until time.Time }

// lockJobs keeps every statement on jobs waiting for a while.
func (l *load) lockJobs(held time.Duration) lockTime {
	l.t.Helper()
	conn, err := pgx.Connect(l.t.Context(), l.cluster.DatabaseURL)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(l.t.Context())) }()
	tx, err := conn.Begin(l.t.Context())
	if err == nil {
		_, err = tx.Exec(l.t.Context(), `LOCK TABLE jobs IN ACCESS EXCLUSIVE MODE`)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	taken := time.Now()
	pace(l.t.Context(), held)
	if err := tx.Rollback(l.t.Context()); err != nil {
		l.t.Error(err)
	}
	return lockTime{taken, time.Now()}
}

// poolSeen are the answers to submits and reads.
type poolSeen struct {
	served, refused         []invariants.Event
	submits                 int // of the refused
	slowest, slowestRefusal time.Duration
}

// poolAnswers sorts them, and says of each that is neither success nor a refusal that
// came in time and asks to come back.
func poolAnswers(t *testing.T, h invariants.History) poolSeen {
	t.Helper()
	var seen poolSeen
	for _, e := range h.Events {
		if e.Op != invariants.OpSubmit && e.Op != invariants.OpOther {
			continue
		}
		took := e.Done.Sub(e.Sent)
		seen.slowest = max(seen.slowest, took)
		switch {
		case e.OK():
			seen.served = append(seen.served, e)
		case e.Status == http.StatusServiceUnavailable && e.RetryAfter != "":
			seen.refused = append(seen.refused, e)
			if e.Op == invariants.OpSubmit {
				seen.submits++
			}
			if e.Code == string(problem.Overloaded) {
				seen.slowestRefusal = max(seen.slowestRefusal, took)
			}
		default:
			t.Errorf("a %s was answered %d %s with Retry-After %q after %v", e.Op, e.Status, e.Code, e.RetryAfter, took)
		}
	}
	// A submit may wait for the flush before its own: that one's wait is on top.
	if bound := stack.Patience(2*poolWait + time.Second); seen.slowestRefusal > bound || seen.slowest > stack.Patience(hang) {
		t.Errorf("the slowest refusal took %v, more than %v, and the slowest answer %v", seen.slowestRefusal, bound, seen.slowest)
	}
	return seen
}

// within are the events that were asked for in some time.
func within(events []invariants.Event, from, until time.Time) []invariants.Event {
	var in []invariants.Event
	for _, e := range events {
		if e.Sent.After(from) && e.Sent.Before(until) {
			in = append(in, e)
		}
	}
	return in
}
