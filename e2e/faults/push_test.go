package faults_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// pushRate is how many jobs a second each tenant submits.
func pushRate() int { return lane(25, 100) }

// pushCluster is a cluster whose queues may push to this machine.
func pushCluster(t *testing.T, more stack.ClusterOptions) *stack.Cluster {
	t.Helper()
	more.Settings = stack.PushSettings()
	return stack.NewCluster(t, more)
}

// endpoint is a destination that can be dead: then nobody listens.
type endpoint struct {
	t       *testing.T
	address string
	calls   atomic.Int64
	// pause is how long it takes for an answer.
	pause  time.Duration
	server *http.Server
}

func newEndpoint(t *testing.T) *endpoint {
	t.Helper()
	e := &endpoint{t: t, address: porttest.Address(t)}
	e.revive()
	t.Cleanup(func() { e.kill() })
	return e
}

func (e *endpoint) url() string { return "http://" + e.address + "/jobs" }

func (e *endpoint) revive() {
	e.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(e.t.Context(), "tcp", e.address)
	if err != nil {
		e.t.Fatal(err)
	}
	e.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		e.calls.Add(1)
		time.Sleep(e.pause)
		_, _ = io.WriteString(w, `"done"`)
	})}
	go func(s *http.Server) { _ = s.Serve(listener) }(e.server)
}

func (e *endpoint) kill() { _ = e.server.Close() }

// pushTenant is a tenant with one queue that pushes.
type pushTenant struct {
	stack.Tenant
	client    *client.Client
	submitted atomic.Int64
}

func newPushTenant(t *testing.T, c *stack.Cluster, name string, queue map[string]any) *pushTenant {
	t.Helper()
	p := &pushTenant{Tenant: c.NewTenant(t, name)}
	c.SetQueue(t, p.Tenant, "hooks", queue)
	p.client = c.Client(t, p.Key)
	return p
}

// produce submits jobs, pushRate a second, until stop is called.
func (p *pushTenant) produce(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(time.Second / time.Duration(pushRate()))
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			group.Go(func() {
				if _, err := p.client.Submit(t.Context(), api.SubmitRequest{Type: "push", Queue: "hooks"}); err != nil {
					t.Errorf("submit: %v", err)
					return
				}
				p.submitted.Add(1)
			})
		}
	})
	return func() { cancel(); group.Wait() }
}

func (p *pushTenant) breaker(t *testing.T) string {
	t.Helper()
	queue, err := p.client.Queue(t.Context(), "hooks")
	if err != nil || queue.Breaker == nil {
		t.Fatalf("breaker: %+v, %v", queue.Breaker, err)
	}
	return queue.Breaker.State
}

// A destination is dead for a while under load: its breaker opens, no job dies, no
// attempt is spent while it is open, and another tenant does not notice.
func TestPushDestinationDeadUnderLoad(t *testing.T) {
	furtherFault(t, "TestCoreKilledUnderLoad")
	t.Parallel()
	warm, dead := time.Duration(lane(1, 15))*time.Second, time.Duration(lane(4, 60))*time.Second
	push := func(e *endpoint) map[string]any {
		target := map[string]any{"url": e.url(), "timeout_ms": lane(20_000, 2000)}
		if lane(0, 1) == 0 { // else the defaults: open for 30 s
			target["breaker"] = map[string]any{"open_ms": 1000}
		}
		return map[string]any{"mode": "push", "max_attempts": 3, "retry": map[string]any{"base_ms": 1000}, "push": target}
	}
	c := pushCluster(t, stack.ClusterOptions{})
	dying, well := newEndpoint(t), newEndpoint(t)
	a, b := newPushTenant(t, c, "dying", push(dying)), newPushTenant(t, c, "well", push(well))
	stopA, stopB := a.produce(t), b.produce(t)
	count := func(sql string, args ...any) int {
		found := stack.Query[int](t.Context(), t, c.DatabaseURL, sql, args...)
		if len(found) != 1 {
			t.Fatalf("%s: no answer", sql)
		}
		return found[0]
	}
	attempts := func() int { return count(`SELECT count(*)::integer FROM attempts WHERE tenant_id = $1`, a.ID) }
	stack.Eventually(t, time.Minute, "jobs to be pushed", func() bool { return dying.calls.Load() > 10 && well.calls.Load() > 10 })
	measured := func(d time.Duration) (calls float64) {
		begun, before := time.Now(), well.calls.Load()
		pace(t.Context(), d)
		return float64(well.calls.Load()-before) / time.Since(begun).Seconds()
	}
	rateBefore := measured(warm)

	killed := time.Now()
	dying.kill()
	stack.Eventually(t, time.Minute, "the breaker to open", func() bool { return a.breaker(t) == api.BreakerOpen })
	opened := time.Since(killed)
	pace(t.Context(), stack.Patience(300*time.Millisecond)) // calls under way end
	spentToOpen := attempts()
	rateDuring := measured(dead - time.Since(killed))
	spentWhileOpen := attempts() - spentToOpen
	dying.revive()
	revived := time.Now()
	stack.Eventually(t, 100*time.Second, "the breaker to close", func() bool { return a.breaker(t) == api.BreakerClosed })
	closed := time.Since(revived)
	stack.Eventually(t, 100*time.Second, "the backlog to be gone", func() bool {
		return count(`SELECT count(*)::integer FROM jobs WHERE tenant_id = $1 AND ready_at < statement_timestamp() - interval '1 second'`, a.ID) == 0
	})
	caughtUp := time.Since(revived)
	stopA()
	stopB()
	stack.Eventually(t, 100*time.Second, "all jobs to end", func() bool { return count(`SELECT count(*)::integer FROM jobs`) == 0 })
	letters := count(`SELECT count(*)::integer FROM dead_letters`)
	completed := count(`SELECT count(*)::integer FROM finished_jobs WHERE state = 'completed'`)
	submitted := int(a.submitted.Load() + b.submitted.Load())
	ratio := rateDuring / rateBefore
	t.Logf("FIGURE dead_for=%v rate=%d/s dead_letters=%d attempts_spent_to_open=%d attempts_spent_while_open=%d opened_after=%v "+
		"closed_after=%v caught_up_after=%v other_tenant: before=%.1f/s during=%.1f/s ratio=%.3f submitted=%d completed=%d",
		dead, pushRate(), letters, spentToOpen, spentWhileOpen, opened.Round(time.Millisecond), closed.Round(time.Millisecond),
		caughtUp.Round(time.Millisecond), rateBefore, rateDuring, ratio, submitted, completed)
	if letters != 0 || spentWhileOpen != 0 || completed != submitted {
		t.Errorf("%d dead letters, %d attempts spent while open, %d of %d jobs completed", letters, spentWhileOpen, completed, submitted)
	}
	if spentToOpen == 0 {
		t.Error("the fault was none: no attempt failed")
	}
	if inLongLane() && ratio < 0.5 {
		t.Errorf("the other tenant went on at %.2f of its rate", ratio)
	}
	if drifts := c.Verify(t); len(drifts) > 0 {
		t.Errorf("verify: %v", drifts)
	}
}

// Core is told to stop under load, again and again: calls under way end, and no
// attempt is spent, no call made twice.
func TestPushingCoreStopsUnderLoad(t *testing.T) {
	furtherFault(t, "TestRollingRestart")
	t.Parallel()
	c := pushCluster(t, stack.ClusterOptions{Cores: 2})
	e := newEndpoint(t)
	e.pause = 200 * time.Millisecond
	p := newPushTenant(t, c, "stopped", map[string]any{"mode": "push", "push": map[string]any{"url": e.url()}})
	stop := p.produce(t) // through gateway 0, which calls core 0: core 1 only pushes
	for range lane(2, 20) {
		stack.Eventually(t, time.Minute, "core to live", func() bool { return lives(t, c.Cores[1].URL+"/livez") })
		stack.Eventually(t, time.Minute, "it to push", func() bool { return c.Cores[1].Metric("forgequeue_push_outcomes_total") > 10 })
		if code, took := c.Cores[1].Stop(); code != 0 || took > stack.Patience(15*time.Second) {
			t.Errorf("exit code %d after %v\n%s", code, took, c.Cores[1].Output())
		}
		c.Cores[1].Start()
	}
	stop()
	open := func() []int {
		return stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM jobs`)
	}
	stack.Eventually(t, time.Minute, "all jobs to end", func() bool { n := open(); return len(n) == 1 && n[0] == 0 })
	attempts := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM attempts`)
	once := stack.Query[int](t.Context(), t, c.DatabaseURL, `SELECT count(*)::integer FROM finished_jobs WHERE state = 'completed' AND attempt = 1`)
	if n := p.submitted.Load(); len(attempts) != 1 || attempts[0] != 0 || len(once) != 1 || int64(once[0]) != n || e.calls.Load() != n {
		t.Errorf("%d submitted, %v attempts failed, %v done at the first, %d calls", n, attempts, once, e.calls.Load())
	}
}

func lives(t *testing.T, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return response.Body.Close() == nil && response.StatusCode == http.StatusOK
}
