package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// redisFault is one thing that happens to Redis, and how it ends.
type redisFault struct {
	name  string
	begin func(r *faultyRedis)
	end   func(r *faultyRedis)
}

func redisFaults() []redisFault {
	return []redisFault{
		{"flushed", func(r *faultyRedis) { r.do("FLUSHALL") }, func(*faultyRedis) {}},
		{"frozen", func(r *faultyRedis) { r.signal(syscall.SIGSTOP) }, func(r *faultyRedis) { r.signal(syscall.SIGCONT) }},
		{"killed", func(r *faultyRedis) { r.kill() }, func(r *faultyRedis) { r.start() }},
		{
			"full", func(r *faultyRedis) {
				r.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
				r.do("CONFIG", "SET", "maxmemory", "1")
			},
			func(r *faultyRedis) { r.do("CONFIG", "SET", "maxmemory", "0") },
		},
	}
}

// faultyRedis is a Redis of one test's own.
type faultyRedis struct {
	t   *testing.T
	dir string
	*supervisor.Redis
}

func newFaultyRedis(t *testing.T) *faultyRedis {
	t.Helper()
	r := &faultyRedis{t: t, dir: stack.Folder(t)}
	r.start()
	t.Cleanup(func() {
		r.signal(syscall.SIGCONT)
		_ = r.Stop(context.WithoutCancel(t.Context()))
	})
	return r
}

func (r *faultyRedis) start() {
	r.t.Helper()
	var err error
	if r.Redis, err = supervisor.StartRedis(r.t.Context(), supervisor.RedisOptions{Dir: r.dir}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *faultyRedis) kill() {
	_ = r.Kill()
	<-r.Done()
}

func (r *faultyRedis) signal(s syscall.Signal) { _ = syscall.Kill(r.Pid(), s) }

func (r *faultyRedis) do(words ...string) {
	r.t.Helper()
	if err := invariants.RedisDo(r.t.Context(), r.URL(), words...); err != nil {
		r.t.Errorf("redis %s: %v", words[0], err)
	}
}

// press submits without a key as fast as its limit lets it, from n clients, until
// stop is called.
func (l *load) press(n int) (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	for i := range n {
		transport := &http.Transport{MaxIdleConnsPerHost: 2}
		client := l.noted.Client(l.tenant.ID, transport)
		url := l.urls[i%len(l.urls)] + "/v1/jobs"
		group.Go(func() {
			defer transport.CloseIdleConnections()
			for ctx.Err() == nil {
				if status := l.pressOnce(ctx, client, url); status != http.StatusAccepted {
					pace(ctx, moment(20*time.Millisecond, 60*time.Millisecond))
				}
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

func (l *load) pressOnce(ctx context.Context, client *http.Client, url string) int {
	body, err := json.Marshal(l.request())
	if err != nil {
		l.t.Error(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
	if err != nil {
		l.t.Error(err)
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+l.tenant.Key)
	response, err := client.Do(request)
	if err != nil {
		if ctx.Err() == nil {
			l.t.Errorf("a submit got no answer: %v", err)
		}
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body) // what it says is noted
	return response.StatusCode
}

// Redis is flushed, frozen, killed and filled under load: no request fails for it,
// no more is admitted than one burst a gateway for each loss and return, caps and
// keys stay exact, and when Redis is back it decides again.
func TestRedisFaults(t *testing.T) {
	t.Parallel()
	const gateways = 2
	rate, burst := lane(2, 60), lane(4, 30) // a slow machine has to be limited too
	r := newFaultyRedis(t)
	c := stack.NewCluster(t, stack.ClusterOptions{
		Cores: 2, Gateways: gateways, RedisURL: r.URL(), Settings: map[string]string{"FORGEQUEUE_LOG_LEVEL": "warn"},
	})
	l := newLoad(t, c, stack.Patience(10*time.Second))
	caps := capped{active: 80, running: 20, userRunning: 1000}
	overrides := caps.overrides()
	perSecond, atOnce := float64(rate), int64(burst)
	overrides.JobsPerSecond, overrides.JobBurst = &perSecond, &atOnce
	c.Override(t, l.tenant, overrides)
	stack.Eventually(t, time.Minute, "the limits are in force in both gateways", func() bool { return l.limited(gateways) })

	stopWatch := l.watchCaps(caps)
	stopWork := l.work(6, 5*time.Millisecond)
	stopKeyed := l.produce(2, 100_000, 50*time.Millisecond)
	stopLocal := l.watchLocal()
	stopPress := l.press(lane(8, 200))
	times := map[string]time.Time{}
	var losses []time.Time
	for range lane(1, 4) {
		for _, fault := range redisFaults() {
			pace(t.Context(), time.Duration(lane(1000, 6000))*time.Millisecond) // windows without a loss
			times[fault.name] = time.Now()
			losses = append(losses, time.Now())
			fault.begin(r)
			if fault.name != "flushed" {
				stack.Eventually(t, time.Minute, "every gateway decides alone while Redis is "+fault.name, func() bool {
					return c.Gateways[0].Metric("forgequeue_admission_local")+c.Gateways[1].Metric("forgequeue_admission_local") == gateways
				})
			}
			pace(t.Context(), time.Second)
			losses = append(losses, time.Now())
			fault.end(r)
			stack.Eventually(t, time.Minute, "Redis decides again after it was "+fault.name, func() bool {
				return c.Gateways[0].Metric("forgequeue_admission_local")+c.Gateways[1].Metric("forgequeue_admission_local") == 0
			})
		}
	}
	stopPress()
	stopKeyed()
	l.drain(2 * time.Minute)
	stopWork()
	stopWatch()
	l.drift = c.Verify(t)
	h, db := l.history(), l.database()
	// On a machine with much to do Redis may be too slow at any time, if only for one
	// round trip: the gateways count what each decided alone.
	losses = append(losses, stopLocal()...)
	db.Buckets = []invariants.Bucket{{Tenant: l.tenant.ID, Rate: perSecond, Burst: burst, Losses: losses, Gateways: gateways}}
	l.judge(h, db)
	if broken := h.Count(func(e invariants.Event) bool { return e.Status >= 500 }); broken > 0 {
		t.Errorf("%d requests were answered with a 5xx", broken)
	}
	limited := h.Count(func(e invariants.Event) bool { return e.Status == http.StatusTooManyRequests })
	if limited == 0 {
		t.Error("nothing was ever limited")
	}
	t.Logf("%d limited; latency in the first second: frozen %s, killed %s", limited,
		firstSecond(h, times["frozen"]), firstSecond(h, times["killed"]))
}

// watchLocal notes, until the returned function is called, when a gateway begins and
// ends to decide alone.
func (l *load) watchLocal() (stop func() []time.Time) {
	ctx, cancel := context.WithCancel(l.t.Context())
	var changes []time.Time
	var group sync.WaitGroup
	for _, gateway := range l.cluster.Gateways {
		group.Go(func() {
			last, alone := gateway.Metric(localDecisions), false
			for ctx.Err() == nil {
				pace(ctx, 100*time.Millisecond)
				now := gateway.Metric(localDecisions)
				if rose := now > last; rose != alone {
					alone = rose
					l.mu.Lock()
					changes = append(changes, time.Now())
					l.mu.Unlock()
				}
				last = now
			}
		})
	}
	return func() []time.Time { cancel(); group.Wait(); return changes }
}

const localDecisions = `forgequeue_admission_decisions_total{mode="local",verdict="admitted"}`

// limited says whether every gateway knows the tenant's limit.
func (l *load) limited(gateways int) bool {
	for _, url := range l.urls[:gateways] {
		status, body := stack.Call(l.t, http.MethodGet, url+"/v1/limits", l.tenant.Key, nil)
		var limits api.LimitsResponse
		if err := json.Unmarshal(body, &limits); status != http.StatusOK || err != nil || len(limits.Policies) == 0 || len(limits.Caps) == 0 {
			return false
		}
	}
	return true
}

// firstSecond is how long submits took that were sent in the second after a moment.
func firstSecond(h invariants.History, begin time.Time) string {
	var took []time.Duration
	for _, e := range h.Events {
		if e.Op == invariants.OpSubmit && e.Status != 0 && !e.Sent.Before(begin) && e.Sent.Before(begin.Add(time.Second)) {
			took = append(took, e.Done.Sub(e.Sent))
		}
	}
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	return fmt.Sprintf("p50 %v p99 %v of %d", took[len(took)/2].Round(time.Millisecond), took[len(took)*99/100].Round(time.Millisecond), len(took))
}
