package admission_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
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

// slowly is a rate at which a test sees nothing come back.
const slowly = 0.001

// startRedis starts a Redis for one test, which may do to it what it likes.
func startRedis(t testing.TB, args ...string) *supervisor.Redis {
	t.Helper()
	storetest.Redis(t) // skips where there is none
	r, err := supervisor.StartRedis(t.Context(), supervisor.RedisOptions{ExtraArgs: args})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		_ = syscall.Kill(r.Pid(), syscall.SIGCONT)
		_ = r.Kill() // the test is over, and it may hold anything
		_ = r.Stop(ctx)
	})
	return r
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
	if d := submit(true, bob); d.Verdict != bucket.Admitted {
		t.Fatalf("before any hint: %+v", d)
	}
	l.CapReached(t.Context(), tenant, "bob", full, 0)
	deadline := time.Now().Add(hang)
	for {
		d := submit(true, bob)
		if d.Verdict == bucket.CapReached {
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
		want  bucket.Verdict
	}{
		{"bob", true, bob, bucket.CapReached},
		{"bob with an Idempotency-Key", false, bob, bucket.Admitted},
		{"ann", true, ann, bucket.Admitted},
		{"a batch of both", true, both, bucket.Admitted},
		{"no jobs", true, nil, bucket.Admitted},
	} {
		if d := submit(c.takes, c.jobs); d.Verdict != c.want {
			t.Errorf("%s: %v, want %v", c.what, d.Verdict, c.want)
		}
	}
	if err := client.Set(t.Context(), prefix+"{"+tenant+"}:full:t", "tenant active 9 9 250", hang).Err(); err != nil {
		t.Fatal(err)
	}
	if d := submit(true, both); d.Verdict != bucket.CapReached || d.Cap.Scope != "tenant" || d.Cap.Limit != 9 {
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
	if d := l.Admit(t.Context(), admission.NewRequest(use, in)); d.Verdict != bucket.CapReached || d.Policies[0].Remaining != 10 {
		t.Errorf("by the hint: %+v", d)
	}
}

// I14: whatever the limiter writes goes away by itself.
func TestEveryKeyHasATTL(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	l := limiter(t, own.URL(), admission.LimiterOptions{})
	client := raw(t, own.URL())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.Run(ctx)
	}()
	want := 1 + 6 + 1 // gateways, buckets, a hint
	rate := slowly
	limits := func(string) api.Limits {
		return api.Limits{RequestsPerSecond: &rate, JobsPerSecond: &rate, UserRequestsPerSecond: &rate, UserJobsPerSecond: &rate}
	}
	use := admission.Use{Tenant: "T", KeyID: "K", Jobs: map[string]int64{"bob": 1}, TakesSlots: true, Credential: api.Limits{JobsPerSecond: &rate}}
	for deadline := time.Now().Add(hang); ; time.Sleep(time.Millisecond) {
		l.Admit(t.Context(), admission.NewRequest(use, limits))
		l.CapReached(t.Context(), "T", "", api.CapUse{Scope: "tenant", Kind: "active", Limit: 1, Used: 1}, 0)
		keys, err := client.Keys(t.Context(), "*").Result()
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			// -2: it has gone meanwhile.
			if life, err := client.PTTL(t.Context(), key).Result(); err != nil || life == -1 {
				t.Fatalf("%s lives for ever (%v)", key, err)
			}
		}
		if len(keys) >= want {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("only %v", keys)
		}
	}
	stop()
	<-ended
}

// The largest batch there is: a thousand jobs of a thousand users, in one call.
func TestBatchForAThousandUsers(t *testing.T) {
	t.Parallel()
	l := limiter(t, storetest.Redis(t), admission.LimiterOptions{})
	rate, burst := slowly, int64(1)
	limits := func(string) api.Limits {
		return api.Limits{UserRequestsPerSecond: &rate, UserRequestBurst: &burst, UserJobsPerSecond: &rate, UserJobBurst: &burst}
	}
	jobs := map[string]int64{}
	for i := range api.MaxBatchJobs {
		jobs[fmt.Sprint("user-", i)] = 1
	}
	request := admission.NewRequest(admission.Use{Tenant: uuid.NewString(), Jobs: jobs, TakesSlots: true}, limits)
	for _, want := range []bucket.Verdict{bucket.Admitted, bucket.RateLimited} {
		began := time.Now()
		d := l.Admit(t.Context(), request)
		if d.Verdict != want || d.Local || len(d.Policies) != 2*api.MaxBatchJobs {
			t.Fatalf("%v (local: %v), want %v; %d policies", d.Verdict, d.Local, want, len(d.Policies))
		}
		t.Logf("%v in %v", want, time.Since(began))
	}
}
