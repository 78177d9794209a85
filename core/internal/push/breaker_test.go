package push_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/shared/api"
)

// quickly has a breaker that opens after 4 calls and tries again soon.
func quickly(r *api.QueueRequest) {
	r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(4), OpenMS: new(int64(1500)), HalfOpen: new(2)}
}

// spent is what the jobs of a queue have spent and where they are.
func (f *fixture) spent(name string) (attempts, claims, dead int) {
	f.Helper()
	// what runs at this moment may yet be given back
	return f.count(`SELECT COALESCE(sum(attempt), 0) FROM jobs WHERE queue = $1 AND state <> 'running'`, name),
		f.count(`SELECT COALESCE(sum(epoch), 0) FROM jobs WHERE queue = $1`, name),
		f.count(`SELECT count(*) FROM dead_letters WHERE queue = $1`, name)
}

func (f *fixture) metric(name string) float64 {
	f.Helper()
	families, err := f.registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	f.Fatalf("there is no metric %s", name)
	return 0
}

// While a destination is dead no job of its queue is claimed; the few that try it
// again spend nothing; others are not affected; and when it is back all is done.
func TestOpenBreakerSpendsNoAttempts(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var alive atomic.Bool
	d := newDestination(t, func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Path == "/dead" && !alive.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	elsewhere := newDestination(t, says(200, ""))
	other := f.newTenant()
	f.put(f.tenant, "hooks", d.URL+"/dead", quickly)
	f.put(f.tenant, "neighbour", d.URL+"/well", quickly)
	f.put(f.tenant, "elsewhere", elsewhere.URL, quickly)
	f.put(other, "hooks", d.URL+"/well", quickly)
	if b := f.breaker(f.tenant, "hooks"); b == nil || b.State != api.BreakerClosed || b.Since != nil {
		t.Errorf("breaker: %+v", b)
	}
	f.submit(f.tenant, "hooks", 4)
	celltest.Eventually(t, "the breaker to open", func() bool { return f.breaker(f.tenant, "hooks").State == api.BreakerOpen })
	celltest.Eventually(t, "the calls to end", func() bool { return f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == 0 })
	opened := f.breaker(f.tenant, "hooks")
	if opened.RetryAt == nil || opened.Since == nil || opened.RetryAt.Sub(opened.Since.Time) != 1500*time.Millisecond || f.metric("forgequeue_push_breakers_open") != 1 {
		t.Errorf("breaker: %+v", opened)
	}
	waiting := f.submit(f.tenant, "hooks", 20)
	answer := f.d.Submit(t.Context(), []submits.Call{{
		Tenant: f.tenant, IDs: []uuid.UUID{uuid.Must(uuid.NewV7())}, Jobs: []api.SubmitRequest{{Type: "test", Queue: "hooks"}},
	}})[0]
	if answer.Err != nil || !strings.Contains(strings.Join(answer.Warnings, " "), "breaker is open") {
		t.Errorf("%v %+v", answer.Err, answer.Answer)
	}
	// Others, of the same tenant and of the same destination, go on.
	f.ends(f.tenant, f.submit(f.tenant, "elsewhere", 1)[0], api.StateCompleted)
	f.ends(other, f.submit(other, "hooks", 1)[0], api.StateCompleted)
	neighbour := f.submit(f.tenant, "neighbour", 1)[0]
	if calls := count(d, "/dead"); calls != 4 {
		t.Errorf("%d calls", calls)
	}
	// The destination is tried again and again, by two jobs each time.
	celltest.Eventually(t, "two failed probes", func() bool { return count(d, "/dead")+count(d, "/well") >= 4+1+4 })
	attempts, claims, dead := f.spent("hooks")
	if attempts != 4 || dead != 0 {
		t.Errorf("%d attempts spent, %d dead", attempts, dead)
	}
	t.Logf("FIGURE jobs=25 attempts_spent=%d dead=%d claims=%d calls=%d", attempts, dead, claims, count(d, "/dead"))
	alive.Store(true)
	for _, id := range append(waiting, neighbour) {
		f.ends(f.tenant, id, api.StateCompleted)
	}
	if b := f.breaker(f.tenant, "hooks"); b.State != api.BreakerClosed || b.RetryAt != nil || f.metric("forgequeue_push_breakers_open") != 0 {
		t.Errorf("breaker: %+v", b)
	}
}

// A breaker goes with its queue: it counts as open no longer.
func TestABreakerGoesWithItsQueue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(500, ""))
	f.put(f.tenant, "hooks", d.URL, func(r *api.QueueRequest) {
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(4), OpenMS: new(int64(3_600_000)), HalfOpen: new(2)}
	})
	f.submit(f.tenant, "hooks", 4)
	celltest.Eventually(t, "the breaker to open", func() bool { return f.breaker(f.tenant, "hooks").State == api.BreakerOpen })
	celltest.Eventually(t, "the calls to end", func() bool { return f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == 0 })
	if shown, err := f.d.Queue(t.Context(), f.tenant, "hooks"); err != nil || shown.WaitMS != nil {
		t.Errorf("behind an open breaker a job would wait %v (%v)", shown.WaitMS, err)
	}
	f.exec(`DELETE FROM jobs`)
	f.exec(`DELETE FROM dead_letters`)
	if err := f.d.DeleteQueue(t.Context(), f.tenant, "hooks"); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the breaker to go", func() bool { return f.metric("forgequeue_push_breakers_open") == 0 })
}

// A job that has tried a failing destination for the others waits as long as before: the age of the oldest job grows while
// a breaker is open, whatever its probes.
func TestAProbeMakesNoJobYounger(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(500, ""))
	f.put(f.tenant, "hooks", d.URL, func(r *api.QueueRequest) {
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(4), OpenMS: new(time.Hour.Milliseconds()), HalfOpen: new(2)}
	})
	open := func(after time.Time) time.Time {
		t.Helper()
		var b *api.Breaker
		celltest.Eventually(t, "the breaker to open", func() bool {
			b = f.breaker(f.tenant, "hooks")
			return b.State == api.BreakerOpen && b.Since.After(after)
		})
		celltest.Eventually(t, "the calls to end", func() bool { return f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == 0 })
		return b.Since.Time
	}
	f.submit(f.tenant, "hooks", 4)
	opened := open(time.Time{})
	f.exec(`DELETE FROM jobs`)
	f.submit(f.tenant, "hooks", 2)
	f.exec(`UPDATE jobs SET ready_at = ready_at - interval '1 hour'`)
	for range 2 {
		if _, err := f.d.ProbeQueue(t.Context(), f.tenant, "hooks"); err != nil {
			t.Fatal(err)
		}
		opened = open(opened)
		// with one probe of two the breaker opens, and the other job may have gone back untried
		f.exec(`DELETE FROM jobs WHERE epoch = 0`)
		shown, err := f.d.Queue(t.Context(), f.tenant, "hooks")
		if err != nil || shown.OldestQueuedMS == nil || *shown.OldestQueuedMS < time.Hour.Milliseconds() {
			t.Errorf("the oldest job of the queue has waited for %v ms (%v)", store.OrElse(shown.OldestQueuedMS, -1), err)
		}
		oldest, err := f.d.OldestReady(t.Context())
		now, nowErr := f.store.Now(t.Context())
		if err != nil || nowErr != nil || now.Sub(oldest) < time.Hour {
			t.Errorf("the oldest job of all has waited for %v (%v, %v)", now.Sub(oldest), err, nowErr)
		}
	}
	// An attempt that is spent ends the wait.
	d.set(says(200, ""))
	if _, err := f.d.ProbeQueue(t.Context(), f.tenant, "hooks"); err != nil {
		t.Fatal(err)
	}
	celltest.Eventually(t, "the jobs to be done", func() bool { return f.count(`SELECT count(*) FROM jobs`) == 0 })
	if oldest, err := f.d.OldestReady(t.Context()); err != nil || !oldest.IsZero() {
		t.Errorf("nothing waits, since %v (%v)", oldest, err)
	}
}

// A probe ends the time of an open breaker: a destination that is back is not waited for. One that still fails
// costs no job an attempt, and the breaker is open for its whole time again. It may be asked of another core.
func TestAProbeEndsTheTimeOfAnOpenBreaker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var alive atomic.Bool
	d := newDestination(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
		if !alive.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	other := enginetest.NewCore(engine.Options{Store: f.store, Metrics: metrics.NewJobs(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	f.put(f.tenant, "hooks", d.URL, func(r *api.QueueRequest) {
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(4), OpenMS: new(time.Hour.Milliseconds()), HalfOpen: new(2)}
	})
	// Of another tenant, whose breaker stays closed: an executor may hear of a probe up to a second later, and a breaker
	// that opened meanwhile would be half-open.
	calm := f.newTenant()
	f.put(calm, "calm", d.URL)
	if q, err := f.d.ProbeQueue(t.Context(), calm, "calm"); err != nil || q.Breaker.State != api.BreakerClosed {
		t.Errorf("where it is closed: %+v %v", q.Breaker, err)
	}
	f.submit(f.tenant, "hooks", 4)
	opens := func(after time.Time) time.Time {
		t.Helper()
		var b *api.Breaker
		celltest.Eventually(t, "the breaker to open", func() bool {
			b = f.breaker(f.tenant, "hooks")
			return b.State == api.BreakerOpen && b.Since.After(after)
		})
		if left := b.RetryAt.Sub(b.Since.Time); left != time.Hour {
			t.Errorf("it is open for %v", left)
		}
		return b.Since.Time
	}
	opened := opens(time.Time{})
	waiting := f.submit(f.tenant, "hooks", 6)
	calls := len(d.got())
	for _, core := range []*enginetest.Core{f.d, other} {
		q, err := core.ProbeQueue(t.Context(), f.tenant, "hooks")
		if err != nil || core == f.d && q.Breaker.State == api.BreakerClosed {
			t.Fatalf("%+v %v", q.Breaker, err)
		}
		opened = opens(opened)
	}
	celltest.Eventually(t, "the calls to end", func() bool { return f.count(`SELECT count(*) FROM jobs WHERE state = 'running'`) == 0 })
	if more := len(d.got()) - calls; more < 2 || more > 4 {
		t.Errorf("two probes made %d calls, and may make two each", more)
	}
	if attempts, _, dead := f.spent("hooks"); attempts != 4 || dead != 0 {
		t.Errorf("%d attempts spent, %d dead", attempts, dead)
	}
	alive.Store(true)
	if _, err := other.ProbeQueue(t.Context(), f.tenant, "hooks"); err != nil {
		t.Fatal(err)
	}
	for _, id := range waiting {
		f.ends(f.tenant, id, api.StateCompleted)
	}
	if b := f.breaker(f.tenant, "hooks"); b.State != api.BreakerClosed || f.metric("forgequeue_push_breakers_open") != 0 {
		t.Errorf("%+v", b)
	}
	// What is not there, or not in push mode, has no destination.
	if _, err := f.d.PutQueue(t.Context(), f.tenant, "pulled", api.QueueRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"none", "pulled"} {
		if _, err := f.d.ProbeQueue(t.Context(), f.tenant, name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func count(d *destination, path string) int {
	n := 0
	for _, call := range d.got() {
		if call.path == path {
			n++
		}
	}
	return n
}

// A job that is poison itself is not tried for ever by way of a breaker that it
// stays open: after a day its probes spend attempts.
func TestProbesGoOnForADayAtMost(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	d := newDestination(t, says(500, ""))
	f.put(f.tenant, "hooks", d.URL, func(r *api.QueueRequest) {
		r.MaxAttempts = new(2)
		r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(1), OpenMS: new(int64(300)), HalfOpen: new(1)}
	})
	id := f.submit(f.tenant, "hooks", 1)[0]
	f.ends(f.tenant, id, api.StateScheduled)
	f.promote()
	celltest.Eventually(t, "three probes", func() bool { return len(d.got()) >= 4 })
	if job := f.get(f.tenant, id); job.Attempt > 2 || job.DeadReason != nil || job.LastError.Type != "http_500" {
		t.Errorf("%+v", job)
	}
	celltest.Eventually(t, "a moment between probes", func() bool {
		return f.count(`WITH old AS (UPDATE jobs SET deferred_since = statement_timestamp() - interval '25 hours' WHERE state = 'queued' RETURNING id) SELECT count(*) FROM old`) == 1
	})
	f.ends(f.tenant, id, api.StateDeadLetter)
}

// One destination has its part of a core's slots; what is claimed beyond is given
// back, attempt included. A queue's own cap is exact.
func TestSlotsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	release := make(chan struct{})
	var now, most atomic.Int64
	d := newDestination(t, func(http.ResponseWriter, *http.Request, int) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		<-release
		now.Add(-1)
	})
	free := newDestination(t, says(200, ""))
	f.put(f.tenant, "hangs", d.URL)
	f.put(f.tenant, "capped", d.URL, func(r *api.QueueRequest) { r.MaxRunning = new(int64(3)) })
	f.put(f.tenant, "free", free.URL)
	f.submit(f.tenant, "capped", 10)
	celltest.Eventually(t, "three calls", func() bool { return now.Load() == 3 })
	f.submit(f.tenant, "hangs", 30)
	celltest.Eventually(t, "eight calls", func() bool { return now.Load() == 8 })
	// slots are taken, and yet others go on
	f.ends(f.tenant, f.submit(f.tenant, "free", 1)[0], api.StateCompleted)
	if most.Load() != 8 || f.count(`SELECT sum(attempt) FROM jobs`) != 8 {
		t.Errorf("%d calls at once, %d attempts", most.Load(), f.count(`SELECT sum(attempt) FROM jobs`))
	}
	close(release)
	celltest.Eventually(t, "all jobs to be done", func() bool { return f.count(`SELECT count(*) FROM jobs`) == 0 })
	if n := f.count(`SELECT count(*) FROM finished_jobs WHERE state = 'completed' AND attempt = 1`); n != 41 || most.Load() > 8 {
		t.Errorf("%d jobs done with one attempt, %d calls at once", n, most.Load())
	}
}
