package bucket_test

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
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
	"github.com/forgequeue/forgequeue/shared/server/redisclient"
	"github.com/forgequeue/forgequeue/shared/server/redisurl"
)

// hang is a guard against a test that would never end, not a bound on speed.
const hang = 20 * time.Second

// limiter is one that waits for its Redis: these tests are about what it decides,
// on a machine that may stand still for longer than 50 ms.
func limiter(t testing.TB, url string, opts bucket.Options) *bucket.Limiter {
	t.Helper()
	if opts.Prefix == "" {
		opts.Prefix = "test:" + uuid.NewString() + ":"
	}
	opts.Budget = hang
	return bucket.New(dial(t, url, hang), opts)
}

// dial makes a client; none of an empty URL.
func dial(t testing.TB, url string, budget time.Duration) *redisclient.Client {
	t.Helper()
	if url == "" {
		return nil
	}
	client, err := bucket.Dial(url, budget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
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

func of(rate float64, burst, cost int64) bucket.Charge {
	return bucket.Charge{Quota: bucket.NewQuota(rate, burst), Cost: cost}
}

// slowly is a rate at which a test sees nothing come back.
const slowly = 0.001

func TestAdmit(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*bucket.Limiter{
		"redis": limiter(t, storetest.Redis(t), bucket.Options{}),
		"local": bucket.LocalLimiter(1),
	} {
		wide, narrow := of(slowly, 10, 4), of(slowly, 6, 4)
		request := bucket.RequestOf("a", wide, narrow)
		d := l.Admit(t.Context(), request)
		if d.Verdict != bucket.Admitted || d.Local != (name == "local") || len(d.Refused()) > 0 || d.RetryAfter != 0 {
			t.Fatalf("%s: the first: %+v", name, d)
		}
		if a, b := d.Policies[0], d.Policies[1]; a.Remaining != 6 || a.Limit != 10 || b.Remaining != 2 || b.Current() != 4 {
			t.Errorf("%s: after the first: %+v", name, d.Policies)
		}
		for range 3 {
			d = l.Admit(t.Context(), request)
			if d.Verdict != bucket.RateLimited || len(d.Refused()) != 1 || d.Refused()[0].Name != "p1" {
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
	l := bucket.New(dial(t, "redis://127.0.0.1:1", bucket.Budget), bucket.Options{})
	if d := l.Admit(t.Context(), bucket.Request{}); d.Verdict != bucket.Admitted || d.Local {
		t.Errorf("nothing to ask: %+v", d)
	}
	d := l.Admit(t.Context(), bucket.RequestOf("a", of(5, 10, 1), of(5, 10, 11), of(0, 10, 1)))
	if d.Verdict != bucket.CostAboveBurst || len(d.Policies) != 1 || d.Policies[0].Name != "p1" || d.RetryAfter != 0 {
		t.Errorf("a cost above the burst: %+v", d)
	}
	d = l.Admit(t.Context(), bucket.RequestOf("a", of(5, 10, 1), of(0, 10, 1)))
	if d.Verdict != bucket.RateLimited || len(d.Policies) != 1 || d.RetryAfter < time.Second || d.Policies[0].Limit != 0 {
		t.Errorf("a rate of 0: %+v", d)
	}
	if d := l.Peek(t.Context(), bucket.RequestOf("a", of(5, 10, 1), of(0, 10, 1))); len(d.Policies) != 2 {
		t.Errorf("a look at a rate of 0: %+v", d)
	}
}

// A batch that costs more than is left is refused by whichever bucket, and the
// others keep what they had.
func TestRefusedChargesNothing(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), bucket.Options{})
	for range 5 {
		if d := l.Admit(t.Context(), bucket.RequestOf("a", of(slowly, 5, 1), of(slowly, 5, 5))); d.Verdict == bucket.RateLimited {
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
	gateways := []*bucket.Limiter{
		limiter(t, storetest.Redis(t), bucket.Options{Prefix: prefix}),
		limiter(t, storetest.Redis(t), bucket.Options{Prefix: prefix}),
	}
	var admitted, local atomic.Int64
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			for range 20 {
				d := gateways[i%2].Admit(t.Context(), bucket.RequestOf("a", of(slowly, 500, 1), of(slowly, 700, 1)))
				if d.Local {
					local.Add(1)
				} else if d.Verdict == bucket.Admitted {
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
	l := limiter(t, storetest.Redis(t), bucket.Options{})
	var mu sync.Mutex
	var group sync.WaitGroup
	seen := map[int64]int{}
	for range 64 {
		group.Go(func() {
			for range asked / 64 {
				d := l.Admit(t.Context(), bucket.RequestOf("a", of(slowly, burst, 1)))
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
	l := limiter(t, own.URL(), bucket.Options{})
	client := raw(t, own.URL())
	for range 3 {
		if err := client.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if d := l.Admit(t.Context(), bucket.RequestOf("a", of(slowly, 10, 1))); d.Local || d.Verdict != bucket.Admitted {
			t.Fatalf("after SCRIPT FLUSH: %+v", d)
		}
	}
	if d := l.Admit(t.Context(), bucket.RequestOf("a", of(slowly, 10, 1))); d.Policies[0].Remaining != 6 {
		t.Errorf("four were taken, %d remain of 10", d.Policies[0].Remaining)
	}
}

func TestLocalShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, gateways := range []int{1, 4} {
			l := bucket.LocalLimiter(gateways)
			request := bucket.RequestOf("a", of(100, 10, 1))
			admitted := 0
			for range 10_000 { // ten seconds, a request each millisecond
				if l.Admit(t.Context(), request).Verdict == bucket.Admitted {
					admitted++
				}
				time.Sleep(time.Millisecond)
			}
			if want := 10 + 1000/gateways; admitted > want+1 || admitted < want-2 {
				t.Errorf("%d gateways: %d admitted in 10 s of 100/s, burst 10", gateways, admitted)
			}
			d := l.Admit(t.Context(), request)
			for d.Verdict == bucket.Admitted {
				d = l.Admit(t.Context(), request)
			}
			time.Sleep(d.RetryAfter)
			if d := l.Admit(t.Context(), request); d.Verdict != bucket.Admitted {
				t.Errorf("%d gateways: refused after its wait: %+v", gateways, d)
			}
		}
	})
}

func TestLocalMemoryIsBounded(t *testing.T) {
	t.Parallel()
	l := bucket.New(dial(t, "", bucket.Budget), bucket.Options{LocalBuckets: 1000})
	for range 20_000 {
		l.Admit(t.Context(), bucket.RequestOf(uuid.NewString(), of(slowly, 10, 1)))
	}
	if got := l.LocalBuckets(); got != 1000 {
		t.Errorf("%d buckets are remembered", got)
	}
}

// A caller that has left is decided for at once, and disturbs nobody.
func TestAdmitForACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), bucket.Options{})
	left, leave := context.WithCancel(t.Context())
	leave()
	for range 20 {
		l.Admit(left, bucket.RequestOf("a", of(slowly, 100, 1)))
	}
	if d := l.Admit(t.Context(), bucket.RequestOf("b", of(slowly, 100, 1))); d.Local || d.Verdict != bucket.Admitted {
		t.Errorf("after callers that left: %+v", d)
	}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	prefix := "test:" + uuid.NewString() + ":"
	client := raw(t, storetest.Redis(t))
	count := func(l *bucket.Limiter, want int) {
		t.Helper()
		for deadline := time.Now().Add(hang); l.Replicas() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d gateways, want %d", l.Replicas(), want)
			}
		}
	}
	run := func(l *bucket.Limiter) (stop func()) {
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
	first := limiter(t, storetest.Redis(t), bucket.Options{Prefix: prefix, Replicas: 9})
	second := limiter(t, storetest.Redis(t), bucket.Options{Prefix: prefix})
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
