package bucket_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/cmd/supervisor"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/admission/bucket"
)

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

// watched is a limiter whose changes of mode are counted.
type watched struct {
	*bucket.Limiter
	log         lines
	local, back atomic.Int64
}

func watch(t testing.TB, url string) *watched {
	w := &watched{}
	w.Limiter = bucket.New(dial(t, url, bucket.Budget), bucket.Options{
		Prefix: "test:" + uuid.NewString() + ":",
		Logger: w.log.logger(),
		OnMode: func(m bucket.Mode) {
			if m == bucket.ModeLocal {
				w.local.Add(1)
			} else {
				w.back.Add(1)
			}
		},
	})
	return w
}

// until asks until the mode is the wanted one: the changes come by themselves,
// from nothing but requests.
func (w *watched) until(t testing.TB, want bucket.Mode) {
	t.Helper()
	deadline := time.Now().Add(hang)
	for {
		d := w.Admit(t.Context(), bucket.RequestOf(uuid.NewString(), of(slowly, 10, 1)))
		if d.Verdict != bucket.Admitted {
			t.Fatalf("a full bucket refused: %+v", d)
		}
		if w.Mode() == want && d.Local == (want == bucket.ModeLocal) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the mode stays %s", w.Mode())
		}
		time.Sleep(time.Millisecond)
	}
}

// limits shows that whatever the mode, a bucket has a bottom.
func (w *watched) limits(t testing.TB) {
	t.Helper()
	tag, admitted := uuid.NewString(), 0
	for range 30 {
		if w.Admit(t.Context(), bucket.RequestOf(tag, of(slowly, 10, 1))).Verdict == bucket.Admitted {
			admitted++
		}
	}
	if admitted < 10 || admitted > 20 { // one burst, and one more where the mode changed
		t.Errorf("%d admitted through a burst of 10 in mode %s", admitted, w.Mode())
	}
}

func TestClosedPort(t *testing.T) {
	t.Parallel()
	w := watch(t, "redis://127.0.0.1:1")
	w.until(t, bucket.ModeLocal)
	w.limits(t)
	if got := w.log.count("limiter is local"); got != 1 {
		t.Errorf("the change was logged %d times", got)
	}
}

func TestRedisKilledAndBack(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	w.until(t, bucket.ModeRedis)
	if err := own.Kill(); err != nil {
		t.Fatal(err)
	}
	<-own.Done()
	w.until(t, bucket.ModeLocal)
	w.limits(t)
	// No second server can have the first one's socket: its folder goes with it.
	// TestRedisFrozenAndBack shows the way back.
	// Each change is told once, and logged once, however many requests it meets.
	if local, back := w.local.Load(), w.back.Load(); local != back+1 || w.log.count("limiter is local") != int(local) {
		t.Errorf("told %d times of local, %d of back, logged %d times", local, back, w.log.count("limiter is local"))
	}
}

func TestRedisFrozenAndBack(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	w.until(t, bucket.ModeRedis)
	for round := range int64(2) {
		if err := syscall.Kill(own.Pid(), syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		w.until(t, bucket.ModeLocal)
		w.limits(t)
		if err := syscall.Kill(own.Pid(), syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		w.until(t, bucket.ModeRedis)
		w.limits(t)
		if w.local.Load() < round+1 || w.back.Load() < round+1 {
			t.Errorf("round %d: told %d times of local, %d of back", round, w.local.Load(), w.back.Load())
		}
	}
}

// In the first second of a freeze: 200 clients, and what each request took. Most have
// waited for Redis once and no longer; the bound of the last is a hang guard, since a slow
// machine stops all of them for a while. The figure is in the log.
func TestFirstSecondOfAFreeze(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	w.until(t, bucket.ModeRedis)
	if err := syscall.Kill(own.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Second)
	took := make([][]time.Duration, 200)
	var group sync.WaitGroup
	for i := range took {
		group.Go(func() {
			pause := time.NewTicker(20 * time.Millisecond) // 10,000 requests a second in all
			defer pause.Stop()
			for began := time.Now(); began.Before(end); began = time.Now() {
				w.Admit(t.Context(), bucket.RequestOf(fmt.Sprint(i), of(1000, 1000, 1)))
				took[i] = append(took[i], time.Since(began))
				<-pause.C
			}
		})
	}
	group.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(took...)))
	p := func(share float64) time.Duration { return all[int(share*float64(len(all)-1))] }
	slow := len(all) - func() int { n, _ := slices.BinarySearch(all, 10*time.Millisecond); return n }()
	t.Logf("%d requests: p50 %v, p99 %v, longest %v; %d took more than 10 ms", len(all), p(0.5), p(0.99), p(1), slow)
	if p(0.5) > 5*75*time.Millisecond || p(1) > 10*time.Second {
		t.Errorf("p50 %v, longest %v", p(0.5), p(1))
	}
}

// Flushed: buckets are full again, one burst more, and nothing else happens.
func TestRedisFlushed(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := limiter(t, own.URL(), bucket.Options{})
	admitted := 0
	for i := range 60 {
		if i == 30 {
			if err := raw(t, own.URL()).FlushAll(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if d := w.Admit(t.Context(), bucket.RequestOf("a", of(slowly, 10, 1))); d.Verdict == bucket.Admitted && !d.Local {
			admitted++
		}
	}
	if admitted != 20 {
		t.Errorf("%d admitted through a burst of 10 and a flush", admitted)
	}
}

// Full: the script cannot write, and so nothing would be charged.
func TestRedisFullAndBack(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	w.until(t, bucket.ModeRedis)
	client := raw(t, own.URL())
	refusals := map[string][2]func() error{
		"full": {
			func() error { return client.ConfigSet(t.Context(), "maxmemory", "1").Err() },
			func() error { return client.ConfigSet(t.Context(), "maxmemory", "0").Err() },
		},
		"a replica": {
			func() error { return client.SlaveOf(t.Context(), "127.0.0.1", "1").Err() },
			func() error { return client.SlaveOf(t.Context(), "NO", "ONE").Err() },
		},
		"too few replicas": {
			func() error { return client.ConfigSet(t.Context(), "min-replicas-to-write", "3").Err() },
			func() error { return client.ConfigSet(t.Context(), "min-replicas-to-write", "0").Err() },
		},
	}
	for what, change := range refusals {
		if err := change[0](); err != nil {
			t.Fatal(what, err)
		}
		w.until(t, bucket.ModeLocal)
		w.limits(t)
		if err := change[1](); err != nil {
			t.Fatal(what, err)
		}
		w.until(t, bucket.ModeRedis)
		w.limits(t)
	}
}

// What Run does about an outage that no request sees.
func TestRunFindsRedisBack(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	if err := syscall.Kill(own.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.until(t, bucket.ModeLocal)
	if err := syscall.Kill(own.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	for deadline := time.Now().Add(hang); w.Mode() != bucket.ModeRedis; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("the mode stays local")
			break
		}
	}
	stop()
	<-ended
}

// A request that Redis charges too late is decided once, and locally.
func TestLateReplyIsNotADecision(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	w := watch(t, own.URL())
	w.until(t, bucket.ModeRedis)
	if err := syscall.Kill(own.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	request := bucket.RequestOf("late", of(slowly, 10, 1))
	if d := w.Admit(t.Context(), request); !d.Local || d.Verdict != bucket.Admitted || d.Policies[0].Remaining != 9 {
		t.Errorf("while frozen: %+v", d)
	}
	if err := syscall.Kill(own.Pid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.until(t, bucket.ModeRedis)
	// The frozen server had the command in its buffer: it may have charged it, once.
	if d := w.Peek(t.Context(), request); !d.Local && d.Policies[0].Remaining < 9 {
		t.Errorf("after it: %+v", d)
	}
}

// A Redis that was emptied knows no gateway: the first one to beat does not take all of
// a rate for itself until the others beat too.
func TestReplicasAfterAFlush(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	prefix := "test:" + uuid.NewString() + ":"
	ctx, stop := context.WithCancel(t.Context())
	var runs sync.WaitGroup
	defer runs.Wait()
	defer stop()
	limiters := make([]*bucket.Limiter, 3)
	for i := range limiters {
		limiters[i] = bucket.New(dial(t, own.URL(), bucket.Budget), bucket.Options{Prefix: prefix})
		runs.Go(func() { limiters[i].Run(ctx) })
		time.Sleep(300 * time.Millisecond) // they beat at different times
	}
	least := func() int {
		return min(limiters[0].Replicas(), limiters[1].Replicas(), limiters[2].Replicas())
	}
	for deadline := time.Now().Add(hang); least() != len(limiters); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gateways never saw each other")
		}
	}
	if err := raw(t, own.URL()).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for flushed := time.Now(); time.Since(flushed) < 1500*time.Millisecond; time.Sleep(time.Millisecond) {
		if n := least(); n != len(limiters) {
			t.Fatalf("%v after the flush a gateway counts %d", time.Since(flushed), n)
		}
	}
}

// I8, on two gateways, through a flush and a freeze: in the whole run no more than
// burst + rate·Δt + 1, and one burst for each loss and each return that a gateway
// told of, and for the flush.
func TestRateThroughAnOutage(t *testing.T) {
	t.Parallel()
	own := startRedis(t)
	const rate, burst, gateways = 1000, 40, 2
	var changes atomic.Int64
	prefix := "test:" + uuid.NewString() + ":"
	ctx, stop := context.WithCancel(t.Context())
	var group, runs sync.WaitGroup
	limiters := make([]*bucket.Limiter, gateways)
	for i := range limiters {
		limiters[i] = bucket.New(dial(t, own.URL(), bucket.Budget), bucket.Options{
			Prefix: prefix, OnMode: func(bucket.Mode) { changes.Add(1) },
		})
		runs.Go(func() { limiters[i].Run(ctx) })
	}
	for deadline := time.Now().Add(hang); limiters[0].Replicas()+limiters[1].Replicas() != 2*gateways; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gateways never saw each other")
		}
	}
	var admitted, local, asked atomic.Int64
	done := make(chan struct{})
	began := time.Now()
	for i := range 16 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				d := limiters[i%gateways].Admit(t.Context(), bucket.RequestOf("one", of(rate, burst, 1)))
				asked.Add(1)
				if d.Local {
					local.Add(1)
				}
				if d.Verdict == bucket.Admitted {
					admitted.Add(1)
				} else {
					time.Sleep(time.Millisecond) // 16 callers, two cores
				}
			}
		})
	}
	client := raw(t, own.URL())
	if err := client.FlushAll(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	_ = syscall.Kill(own.Pid(), syscall.SIGSTOP)
	for deadline := time.Now().Add(hang); local.Load() < 5000 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	_ = syscall.Kill(own.Pid(), syscall.SIGCONT)
	for deadline := time.Now().Add(hang); (limiters[0].Mode() != bucket.ModeRedis || limiters[1].Mode() != bucket.ModeRedis) &&
		time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // some of it on Redis again
	close(done)
	group.Wait()
	took := time.Since(began)
	stop()
	runs.Wait()
	allowed := burst*(1+gateways+changes.Load()) + int64(rate*took.Seconds()) + 1
	t.Logf("%d of %d admitted in %v, %d allowed; %d decided locally", admitted.Load(), asked.Load(), took, allowed, local.Load())
	if admitted.Load() > allowed || local.Load() < 5000 {
		t.Errorf("%d admitted, %d allowed; %d decided locally", admitted.Load(), allowed, local.Load())
	}
}
