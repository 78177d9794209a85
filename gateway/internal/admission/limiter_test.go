package admission_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/redisurl"
)

// limiter is one that waits for its Redis: these tests are about what it decides,
// on a machine that may stand still for longer than 50 ms.
func limiter(t testing.TB, url string, opts admission.LimiterOptions) *admission.Limiter {
	t.Helper()
	if opts.Prefix == "" {
		opts.Prefix = "test:" + uuid.NewString() + ":"
	}
	return admission.NewLimiter(patient(t, url), opts)
}

func patient(t testing.TB, url string) *admission.Redis {
	t.Helper()
	r, err := admission.ConnectWithin(url, hang)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// raw is a connection of the test's own to the same server.
func raw(t testing.TB, url string) redis.UniversalClient {
	t.Helper()
	target, err := redisurl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: target.Addrs, IsClusterMode: target.Cluster, DB: target.DB, Username: target.Username, Password: target.Password,
	})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func of(rate float64, burst, cost int64) admission.Charge {
	return admission.Charge{Quota: admission.NewQuota(rate, burst), Cost: cost}
}

// slowly is a rate at which a test sees nothing come back.
const slowly = 0.001

func TestAdmit(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*admission.Limiter{
		"redis": limiter(t, storetest.Redis(t), admission.LimiterOptions{}),
		"local": admission.LocalLimiter(1),
	} {
		wide, narrow := of(slowly, 10, 4), of(slowly, 6, 4)
		request := admission.RequestOf("a", wide, narrow)
		d := l.Admit(t.Context(), request)
		if d.Verdict != admission.Admitted || d.Local != (name == "local") || len(d.Refused()) > 0 || d.RetryAfter != 0 {
			t.Fatalf("%s: the first: %+v", name, d)
		}
		if a, b := d.Policies[0], d.Policies[1]; a.Remaining != 6 || a.Limit != 10 || b.Remaining != 2 || b.Current() != 4 {
			t.Errorf("%s: after the first: %+v", name, d.Policies)
		}
		for range 3 {
			d = l.Admit(t.Context(), request)
			if d.Verdict != admission.RateLimited || len(d.Refused()) != 1 || d.Refused()[0].Name != "p1" {
				t.Fatalf("%s: the second: %+v", name, d)
			}
			if d.Policies[0].Remaining != 6 { // a refusal charges nothing
				t.Fatalf("%s: the wide bucket paid for a refusal: %+v", name, d.Policies)
			}
			if d.RetryAfter < 1900*time.Second || d.RetryAfter > 2000*time.Second {
				t.Errorf("%s: two tokens are missing, to come in %v", name, d.RetryAfter)
			}
		}
		d = l.Peek(t.Context(), request)
		if d.Policies[0].Remaining != 6 || d.Policies[1].Remaining != 2 || d.Policies[1].Reset < 3900*time.Second {
			t.Errorf("%s: a look: %+v", name, d.Policies)
		}
	}
}

func TestAdmitWithoutAsking(t *testing.T) {
	t.Parallel()
	l := admission.NewLimiter(connect(t, "redis://127.0.0.1:1"), admission.LimiterOptions{})
	if d := l.Admit(t.Context(), admission.Request{}); d.Verdict != admission.Admitted || d.Local {
		t.Errorf("nothing to ask: %+v", d)
	}
	d := l.Admit(t.Context(), admission.RequestOf("a", of(5, 10, 1), of(5, 10, 11), of(0, 10, 1)))
	if d.Verdict != admission.CostAboveBurst || len(d.Policies) != 1 || d.Policies[0].Name != "p1" || d.RetryAfter != 0 {
		t.Errorf("a cost above the burst: %+v", d)
	}
	d = l.Admit(t.Context(), admission.RequestOf("a", of(5, 10, 1), of(0, 10, 1)))
	if d.Verdict != admission.RateLimited || len(d.Policies) != 1 || d.RetryAfter < time.Second || d.Policies[0].Limit != 0 {
		t.Errorf("a rate of 0: %+v", d)
	}
	if d := l.Peek(t.Context(), admission.RequestOf("a", of(5, 10, 1), of(0, 10, 1))); len(d.Policies) != 2 {
		t.Errorf("a look at a rate of 0: %+v", d)
	}
}

// A batch that costs more than is left is refused by whichever bucket, and the
// others keep what they had.
func TestRefusedChargesNothing(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{})
	for range 5 {
		if d := l.Admit(t.Context(), admission.RequestOf("a", of(slowly, 5, 1), of(slowly, 5, 5))); d.Verdict == admission.RateLimited {
			if d.Policies[0].Remaining != 4 {
				t.Fatalf("a refusal was charged: %+v", d.Policies)
			}
		}
	}
}

// Many at once over two gateways: exactly the burst is admitted.
func TestConcurrentRequestsShareABurst(t *testing.T) {
	t.Parallel()
	prefix := "test:" + uuid.NewString() + ":"
	gateways := []*admission.Limiter{
		limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix}),
		limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix}),
	}
	var admitted, local atomic.Int64
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 20 {
				d := gateways[i%2].Admit(t.Context(), admission.RequestOf("a", of(slowly, 500, 1), of(slowly, 700, 1)))
				if d.Local {
					local.Add(1)
				} else if d.Verdict == admission.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	group.Wait()
	if admitted.Load() != 500 || local.Load() != 0 {
		t.Errorf("%d admitted through a burst of 500, %d decided locally", admitted.Load(), local.Load())
	}
}

// Equal requests share a call of the script, and each is told what those before it
// have left: no two the same.
func TestEqualRequestsAreToldApart(t *testing.T) {
	t.Parallel()
	const burst, asked = 500, 640
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{})
	var mu sync.Mutex
	var group sync.WaitGroup
	seen := map[int64]int{}
	for range 64 {
		group.Go(func() {
			for range asked / 64 {
				d := l.Admit(t.Context(), admission.RequestOf("a", of(slowly, burst, 1)))
				mu.Lock()
				seen[d.Policies[0].Remaining]++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	for left := range int64(burst) {
		want := 1
		if left == 0 {
			want += asked - burst // that were refused
		}
		if seen[left] != want {
			t.Errorf("%d were told that %d are left, want %d", seen[left], left, want)
		}
	}
}

func TestScriptFlushed(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	l := limiter(t, own.URL(), admission.LimiterOptions{})
	client := raw(t, own.URL())
	for range 3 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if d := l.Admit(t.Context(), admission.RequestOf("a", of(slowly, 10, 1))); d.Local || d.Verdict != admission.Admitted {
			t.Fatalf("after SCRIPT FLUSH: %+v", d)
		}
	}
	if d := l.Admit(t.Context(), admission.RequestOf("a", of(slowly, 10, 1))); d.Policies[0].Remaining != 6 {
		t.Errorf("four were taken, %d remain of 10", d.Policies[0].Remaining)
	}
}

func TestCapHints(t *testing.T) {
	t.Parallel()
	prefix := "test:" + uuid.NewString() + ":"
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix})
	tenant := uuid.NewString()
	none := func(string) api.Limits { return api.Limits{} }
	submit := func(takes bool, jobs map[string]int64) admission.Decision {
		return l.Admit(t.Context(), admission.NewRequest(admission.Use{Tenant: tenant, KeyID: "k", Jobs: jobs, TakesSlots: takes}, none))
	}
	full := api.CapUse{Scope: "user", Kind: "active", Limit: 7, Used: 7}
	bob, ann, both := map[string]int64{"bob": 1}, map[string]int64{"ann": 1}, map[string]int64{"bob": 1, "ann": 1}
	if d := submit(true, bob); d.Verdict != admission.Admitted {
		t.Fatalf("before any hint: %+v", d)
	}
	l.CapReached(t.Context(), tenant, "bob", full, 0)
	deadline := time.Now().Add(hang)
	for {
		d := submit(true, bob)
		if d.Verdict == admission.CapReached {
			if *d.Cap != full || d.RetryAfter != 250*time.Millisecond {
				t.Errorf("by the hint: %+v, %+v", d, d.Cap)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the hint never came")
		}
		l.CapReached(t.Context(), tenant, "bob", full, 0)
	}
	// Written anew for each, since a hint lives for 250 ms only.
	client := raw(t, storetest.Redis(t))
	if life, err := client.PTTL(t.Context(), prefix+"{"+tenant+"}:full:u:bob").Result(); err != nil || life > 250*time.Millisecond || life == -1 {
		t.Errorf("a hint lives %v (%v)", life, err)
	}
	key := prefix + "{" + tenant + "}:full:u:bob"
	if err := client.Set(t.Context(), key, "user active 7 7 250", hang).Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		takes bool
		jobs  map[string]int64
		want  admission.Verdict
	}{
		{"bob", true, bob, admission.CapReached},
		{"bob with an Idempotency-Key", false, bob, admission.Admitted},
		{"ann", true, ann, admission.Admitted},
		{"a batch of both", true, both, admission.Admitted},
		{"no jobs", true, nil, admission.Admitted},
	} {
		if d := submit(c.takes, c.jobs); d.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.what, d.Verdict, c.want)
		}
	}
	if err := client.Set(t.Context(), prefix+"{"+tenant+"}:full:t", "tenant active 9 9 250", hang).Err(); err != nil {
		t.Fatal(err)
	}
	if d := submit(true, both); d.Verdict != admission.CapReached || d.Cap.Scope != "tenant" || d.Cap.Limit != 9 {
		t.Errorf("the tenant is full: %+v", d)
	}
}

// A refusal by hint is charged to nobody.
func TestCapHintChargesNothing(t *testing.T) {
	t.Parallel()
	prefix, tenant := "test:"+uuid.NewString()+":", uuid.NewString()
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix})
	if err := raw(t, storetest.Redis(t)).Set(t.Context(), prefix+"{"+tenant+"}:full:t", "tenant active 9 9 250", hang).Err(); err != nil {
		t.Fatal(err)
	}
	rate, burst := slowly, int64(10)
	in := func(string) api.Limits { return api.Limits{JobsPerSecond: &rate, JobBurst: &burst} }
	use := admission.Use{Tenant: tenant, Jobs: map[string]int64{"": 2}, TakesSlots: true}
	if d := l.Admit(t.Context(), admission.NewRequest(use, in)); d.Verdict != admission.CapReached || d.Policies[0].Remaining != 10 {
		t.Errorf("by the hint: %+v", d)
	}
}

func TestLocalShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, gateways := range []int{1, 4} {
			l := admission.LocalLimiter(gateways)
			request := admission.RequestOf("a", of(100, 10, 1))
			admitted := 0
			for range 10_000 { // ten seconds, a request each millisecond
				if l.Admit(t.Context(), request).Verdict == admission.Admitted {
					admitted++
				}
				time.Sleep(time.Millisecond)
			}
			if want := 10 + 1000/gateways; admitted > want+1 || admitted < want-2 {
				t.Errorf("%d gateways: %d admitted in 10 s of 100/s, burst 10", gateways, admitted)
			}
			d := l.Admit(t.Context(), request)
			for d.Verdict == admission.Admitted {
				d = l.Admit(t.Context(), request)
			}
			time.Sleep(d.RetryAfter)
			if d := l.Admit(t.Context(), request); d.Verdict != admission.Admitted {
				t.Errorf("%d gateways: refused after its wait: %+v", gateways, d)
			}
		}
	})
}

func TestLocalMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := admission.NewLimiter(connect(t, ""), admission.LimiterOptions{LocalBuckets: 1000})
	for range 20_000 {
		l.Admit(t.Context(), admission.RequestOf(uuid.NewString(), of(slowly, 10, 1)))
	}
	if got := l.LocalBuckets(); got != 1000 {
		t.Errorf("%d buckets are remembered", got)
	}
}

// A caller that has left is decided for at once, and disturbs nobody.
func TestAdmitForACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{})
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 20 {
		l.Admit(left, admission.RequestOf("a", of(slowly, 100, 1)))
	}
	if d := l.Admit(t.Context(), admission.RequestOf("b", of(slowly, 100, 1))); d.Local || d.Verdict != admission.Admitted {
		t.Errorf("after callers that left: %+v", d)
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	prefix := "test:" + uuid.NewString() + ":"
	client := raw(t, storetest.Redis(t))
	count := func(l *admission.Limiter, want int) {
		t.Helper()
		for deadline := time.Now().Add(hang); l.Replicas() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d gateways, want %d", l.Replicas(), want)
			}
		}
	}
	run := func(l *admission.Limiter) (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.Run(ctx)
		}()
		return func() {
			cancel()
			<-ended
		}
	}
	first := limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix, Replicas: 9})
	second := limiter(t, storetest.Redis(t), admission.LimiterOptions{Prefix: prefix})
	if first.Replicas() != 9 || second.Replicas() != 1 {
		t.Errorf("before any was seen: %d, %d", first.Replicas(), second.Replicas())
	}
	stopFirst := run(first)
	defer stopFirst()
	count(first, 1)
	stopSecond := run(second)
	count(second, 2)
	count(first, 2)
	if life, err := client.PTTL(t.Context(), prefix+"gateways").Result(); err != nil || life <= 0 || life > 5*time.Second {
		t.Errorf("the set of gateways lives %v (%v)", life, err)
	}
	stopSecond()
	count(first, 1)
}

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
