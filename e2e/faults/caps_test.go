package faults_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/contract"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// capped are the caps of TestCapsUnderKills.
type capped struct{ active, running, userRunning int64 }

func (c capped) overrides() api.Overrides {
	return api.Overrides{Limits: api.Limits{MaxActive: &c.active, MaxRunning: &c.running, UserMaxRunning: &c.userRunning}}
}

// overCapSQL gives a line for each cap that is exceeded at this moment.
const overCapSQL = `
SELECT count(*) || ' active of ' || $1::bigint FROM jobs HAVING count(*) > $1
UNION ALL
SELECT count(*) || ' running of ' || $2::bigint FROM jobs WHERE state = 'running' HAVING count(*) > $2
UNION ALL
SELECT count(*) || ' running of ' || $3::bigint || ' of ' || user_id FROM jobs WHERE state = 'running' GROUP BY user_id HAVING count(*) > $3`

// watchCaps looks at the counts of a database with one capped tenant until the
// returned function is called, which gives how often it looked.
func (l *load) watchCaps(c capped) (stop func() int) {
	ctx, cancel := context.WithCancel(l.t.Context())
	looks := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			over := stack.Query[string](ctx, l.t, l.cluster.DatabaseURL, overCapSQL, c.active, c.running, c.userRunning)
			l.mu.Lock()
			l.overCap = append(l.overCap, over...)
			l.mu.Unlock()
			if over != nil { // not while PostgreSQL does not answer
				n++
			}
			pace(ctx, 15*time.Millisecond)
		}
		looks <- n
	}()
	return func() int { cancel(); return <-looks }
}

// Core, gateway and workers are killed in turn while a tenant lives at its caps. No
// slot is lost and none is given twice: not at any look, and not once quiet.
func TestCapsUnderKills(t *testing.T) {
	t.Parallel()
	kills := lane(5, 50)
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	l := newLoad(t, c, 2*time.Second)
	l.users = 5
	caps := capped{active: 40, running: 8, userRunning: 2}
	c.Override(t, l.tenant, caps.overrides())
	for _, core := range c.Cores { // a core that knew the tenant before hears of its caps a moment later, and of more on a busy machine
		core.Kill()
		core.Start()
		core.AwaitReady()
	}
	stopWatch := l.watchCaps(caps)
	plan := workerPlan{Mode: "loop", Max: 6, HoldMS: 60}
	workers := []*stack.Process{l.process(plan), l.process(plan)}
	stopSubmits := l.produce(16, kills*lane(100, 300), 5*time.Millisecond)
	killed := map[string]int{}
	for i := range kills {
		pace(t.Context(), moment(200*time.Millisecond, 700*time.Millisecond))
		l.killOne(i, workers, plan, killed)
	}
	stopSubmits()
	l.drain(3 * time.Minute)
	looks := stopWatch()
	for _, w := range workers {
		w.Stop(t)
	}
	l.drift = c.Verify(t)
	h, _ := l.check()
	full := 0
	for _, e := range h.Events {
		if e.Code == string(problem.ActiveCapReached) {
			full++
		}
	}
	if looks < 20 || full == 0 {
		t.Errorf("nothing was shown: %d looks, %d refusals", looks, full)
	}
	l.fill(caps.active)
	t.Logf("kills %v, %d looks, %d over a cap, %d refused at the cap, drift %d", killed, looks, len(l.overCap), full, len(l.drift))
}

// killOne kills a core, a gateway or a worker and starts it again.
func (l *load) killOne(i int, workers []*stack.Process, plan workerPlan, killed map[string]int) {
	c := l.cluster
	switch i % 3 {
	case 0:
		c.Cores[i/3%2].Kill()
		c.Cores[i/3%2].Start()
		c.Cores[i/3%2].AwaitReady()
		killed["core"]++
	case 1:
		c.Gateways[i/3%2].Kill()
		c.Gateways[i/3%2].Start()
		killed["gateway"]++
	default:
		workers[i/3%2].Kill()
		workers[i/3%2] = l.process(plan)
		killed["worker"]++
	}
	for _, gateway := range c.Gateways {
		gateway.AwaitReady()
	}
}

// fill submits until there is no room: exactly as many as the cap pass, and the
// next is refused with what is used.
func (l *load) fill(limit int64) {
	l.t.Helper()
	c := l.client()
	for i := range limit {
		if _, err := c.Submit(l.t.Context(), l.request()); err != nil {
			l.t.Fatalf("job %d of %d: %v", i+1, limit, err)
		}
	}
	status, body := stack.Call(l.t, http.MethodPost, l.cluster.Gateways[0].URL+"/v1/jobs", l.tenant.Key, []byte(`{"type":"one.more"}`))
	if status != http.StatusTooManyRequests {
		l.t.Errorf("one more: %d %s", status, body)
	}
}

// Equal submits at the same moment, over two gateways and two cores: one job, and
// the same answer for everybody. With another body it is a mismatch.
func TestEqualSubmitsOverTwoGateways(t *testing.T) {
	furtherFault(t, "TestHTTPAnswersLost")
	t.Parallel()
	n := lane(200, 1000)
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	tenant := c.NewTenant(t, "equal")
	type told struct {
		status int
		body   string
	}
	answers := make([]told, n)
	client := &http.Client{Transport: contract.Transport(&http.Transport{MaxIdleConnsPerHost: n}), Timeout: 2 * time.Minute}
	defer client.CloseIdleConnections()
	var cameBack, unavailable atomic.Int64
	send := func(i int, body string) told {
		for { // as a client has to that is told to come back
			status, got, again := sendKeyed(t, client, c.Gateways[i%2].URL, tenant.Key, body)
			if !again {
				return told{status, got}
			}
			cameBack.Add(1)
			if status >= 500 {
				unavailable.Add(1)
			}
			pace(t.Context(), time.Duration(50+rand.IntN(200))*time.Millisecond)
		}
	}
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			// the same number, the same object, in many spellings
			answers[i] = send(i, []string{`{"type":"t","payload":{"a":1.0,"b":[1e2]}}`, `{"payload":{"b":[100],"a":1},"type":"t"}`}[i%2])
		})
	}
	group.Wait()
	different := map[told]int{}
	for _, answer := range answers {
		different[answer]++
	}
	if len(different) != 1 || answers[0].status != http.StatusAccepted {
		t.Errorf("%d different answers, first %d %s", len(different), answers[0].status, answers[0].body)
	}
	stored := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM jobs`)
	if len(stored) != 1 || stored[0] != 1 {
		t.Errorf("%v jobs, want 1", stored)
	}
	for _, body := range []string{`{"type":"t","payload":{"a":1.0000000000000001,"b":[1e2]}}`, `{"type":"t2","payload":{"a":1.0,"b":[1e2]}}`} {
		if got := send(0, body); got.status != http.StatusUnprocessableEntity {
			t.Errorf("another body: %d %s", got.status, got.body)
		}
	}
	t.Logf("%d equal submits, %d different answers, %v jobs; told to come back %d times, %d of them with 503",
		n, len(different), stored, cameBack.Load(), unavailable.Load())
}

// sendKeyed submits under the test's key; again says that the answer asks to come back.
func sendKeyed(t *testing.T, client *http.Client, url, key, body string) (status int, answer string, again bool) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/jobs", strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0, "", false
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Idempotency-Key", "the-same")
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return 0, "", false
	}
	defer func() { _ = response.Body.Close() }()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	text := string(read)
	if response.StatusCode >= 500 && response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a %d: %s", response.StatusCode, text)
	}
	code := response.StatusCode
	return code, text, code == http.StatusServiceUnavailable || code == http.StatusConflict || code == http.StatusTooManyRequests
}
