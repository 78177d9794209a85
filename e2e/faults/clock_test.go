package faults_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// The clocks of cores and gateways are an hour wrong, and jump to another hour as
// the services are started again: no job is claimed before its time, no lease runs
// out, and a key holds as long as it should.
func TestClocksAnHourOff(t *testing.T) {
	furtherFault(t, "TestWorkerPausedPastItsLease")
	t.Parallel()
	shifts := []string{"1h", "-1h", "0s"}
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2, Clocks: []string{"1h", "-1h", "-1h", "1h"}})
	l := newLoad(t, c, stack.Patience(10*time.Second))
	l.delay = 700 * time.Millisecond
	key := c.NewKey(t, l.tenant, time.Now().Add(30*time.Minute))
	stopWork := l.work(4, 30*time.Millisecond)
	stopSubmits := l.produce(6, 20_000, 10*time.Millisecond)
	jumps := lane(4, 50)
	for i := range jumps {
		pace(t.Context(), moment(300*time.Millisecond, 800*time.Millisecond))
		services := append(append([]*stack.Service{}, c.Cores...), c.Gateways...)
		s := services[i%len(services)]
		s.Stop()
		s.SetClock(shifts[(i+i/len(services))%len(shifts)])
		s.Start()
		s.AwaitReady() // what a gateway says of its core may be a second old
		for _, gateway := range c.Gateways {
			gateway.AwaitReady()
		}
		for _, gateway := range c.Gateways {
			if status, body := stack.Call(t, http.MethodGet, gateway.URL+"/v1/whoami", key, nil); status != http.StatusOK {
				t.Errorf("a key of which half an hour is left: %d %s", status, body)
			}
		}
	}
	stopSubmits()
	l.drain(2 * time.Minute)
	stopWork()
	_, db := l.check()
	if early := stack.Query[string](t.Context(), t, c.DatabaseURL,
		`SELECT id || ' by ' || (run_at - started_at) FROM finished_jobs WHERE attempt = 1 AND started_at < run_at`); len(early) > 0 && !stack.OnCitus() { // there the statement's time is from before the worker looks
		t.Errorf("%d jobs were claimed before their time: %v", len(early), early)
	}
	if lost := expired(db); lost > 0 {
		t.Errorf("%d leases ran out", lost)
	}
	stale := 0.0
	for _, core := range c.Cores {
		stale += core.Metric("forgequeue_assertions_expired_total")
	}
	if stale == 0 {
		t.Error("no core has refused a signature for its time: the clocks were right")
	}
	t.Logf("%d clocks set, %v signatures refused for their time", jumps+4, stale)
}

// Cores and gateways are started again one by one under load, behind a balancer:
// what fails at all is told 503 with Retry-After, and no attempt is spent.
func TestRollingRestart(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{
		Cores: 2, Gateways: 2, Settings: map[string]string{"FORGEQUEUE_DRAIN_NOTICE": stack.Patience(500 * time.Millisecond).String()},
	})
	l := newLoad(t, c, stack.Patience(20*time.Second))
	l.balance()
	stopWork := l.work(4, 20*time.Millisecond)
	stopSubmits := l.produce(6, 50_000, 10*time.Millisecond)
	restarts := 0
	for range lane(1, 50) {
		for _, s := range []*stack.Service{c.Cores[0], c.Gateways[0], c.Cores[1], c.Gateways[1]} {
			pace(t.Context(), moment(100*time.Millisecond, 400*time.Millisecond))
			if code, _ := s.Stop(); code != 0 {
				t.Errorf("%s: exit code %d\n%s", s.URL, code, s.Output())
			}
			s.Start()
			for _, gateway := range c.Gateways {
				gateway.AwaitReady()
			}
			restarts++
		}
	}
	stopSubmits()
	l.drain(90 * time.Second)
	stopWork()
	h, db := l.check()
	failed, told := map[string]int{}, 0
	for _, e := range h.Events {
		switch {
		case e.OK() || e.Status == http.StatusConflict:
		case e.Status == http.StatusServiceUnavailable && e.RetryAfter != "":
			told++
		default:
			failed[fmt.Sprint(e.Op, " ", e.Status, " ", e.Code)]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("requests that failed otherwise than with 503 and Retry-After: %v", failed)
	}
	for _, a := range db.Attempts {
		if a.Kind != "failed" {
			t.Errorf("a restart has cost job %s its attempt %d (%s)", a.Job, a.Attempt, a.Kind)
		}
	}
	t.Logf("%d restarts, %d requests told to come back, %d jobs completed", restarts, told, db.Count()[api.StateCompleted])
}
