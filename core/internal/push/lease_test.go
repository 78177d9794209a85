package push_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
)

// hangs holds calls until the other side ends them, which it reports.
func hangs(entered, ended chan<- struct{}) func(http.ResponseWriter, *http.Request, int) {
	return func(_ http.ResponseWriter, r *http.Request, _ int) {
		entered <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	}
}

func within(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Fatalf("not in time: %s", what)
	}
}

func short(r *api.QueueRequest) { r.VisibilityTimeoutMS = new(int64(1000)) }

// A call that takes longer than its lease renews it.
func TestLongCallsKeepTheirLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	extended := make(chan struct{})
	release := sync.OnceFunc(func() { close(extended) })
	t.Cleanup(release)
	d := newDestination(t, func(http.ResponseWriter, *http.Request, int) { <-extended })
	f.put(f.tenant, "hooks", d.URL, short)
	id := f.submit(f.tenant, "hooks", 1)[0]
	celltest.Eventually(t, "the lease to be extended", func() bool {
		return f.count(`SELECT count(*) FROM jobs WHERE lease_expires_at > started_at + interval '2 seconds'`) == 1
	})
	release()
	if job := f.ends(f.tenant, id, api.StateCompleted); job.Epoch != 1 || job.Attempt != 1 {
		t.Errorf("epoch %d, attempt %d", job.Epoch, job.Attempt)
	}
}

// A call ends when its lease is lost; nothing it says counts.
func TestLostLeaseEndsTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	d := newDestination(t, hangs(entered, ended))
	f.put(f.tenant, "hooks", d.URL, short)
	id := f.submit(f.tenant, "hooks", 1)[0]
	within(t, "the call", entered)
	d.set(says(200, `"second"`))
	f.exec(`UPDATE jobs SET state = 'queued', ready_at = statement_timestamp(), lease_id = NULL, lease_expires_at = NULL,
		visibility_timeout_ms = NULL, worker_id = NULL, worker_owner = NULL`)
	within(t, "the end of the call", ended)
	if job := f.ends(f.tenant, id, api.StateCompleted); string(job.Result) != `"second"` || job.Epoch != 2 {
		t.Errorf("%s, epoch %d", job.Result, job.Epoch)
	}
}

// A call ends when its job is cancelled.
func TestCancelEndsTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	d := newDestination(t, hangs(entered, ended))
	f.put(f.tenant, "hooks", d.URL)
	id := f.submit(f.tenant, "hooks", 1)[0]
	within(t, "the call", entered)
	if _, requested, err := f.d.Cancel(t.Context(), f.tenant, "", id); err != nil || !requested {
		t.Fatal(requested, err)
	}
	within(t, "the end of the call", ended)
	f.ends(f.tenant, id, api.StateCancelled)
}

// A call ends at the queue's timeout, and before the job's.
func TestTimeoutsEndTheCall(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entered, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	d := newDestination(t, hangs(entered, ended))
	f.put(f.tenant, "hooks", d.URL, func(r *api.QueueRequest) { r.Push.TimeoutMS = new(int64(300)) })
	f.put(f.tenant, "long", d.URL)
	for _, id := range append(f.submit(f.tenant, "hooks", 1), f.submit(f.tenant, "long", 1, func(r *api.SubmitRequest) { r.TimeoutMS = new(int64(600)) })...) {
		within(t, "the end of the call", ended)
		if job := f.ends(f.tenant, id, api.StateScheduled); job.Attempt != 1 || job.LastError.Type != "timeout" {
			t.Errorf("attempt %d, %+v", job.Attempt, job.LastError)
		}
	}
}

// A core that stops lets calls end, for its grace, and gives the others back.
func TestDrainGivesBackWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := newIdleFixture(t)
	entered, ended := make(chan struct{}, 4), make(chan struct{}, 4)
	slow := newDestination(t, func(http.ResponseWriter, *http.Request, int) {
		entered <- struct{}{}
		time.Sleep(500 * time.Millisecond)
	})
	hung := newDestination(t, hangs(entered, ended))
	f.put(f.tenant, "slow", slow.URL)
	f.put(f.tenant, "hung", hung.URL)
	f.start(2 * time.Second)
	done, back := f.submit(f.tenant, "slow", 1)[0], f.submit(f.tenant, "hung", 1)[0]
	within(t, "a call", entered)
	within(t, "the other call", entered)
	begun := time.Now()
	f.stop()
	if took := time.Since(begun); took < 1900*time.Millisecond || took > 10*time.Second {
		t.Errorf("the drain took %v", took)
	}
	within(t, "the end of the call", ended)
	if job := f.get(f.tenant, done); job.State != api.StateCompleted {
		t.Errorf("the call that ended: %s", job.State)
	}
	if job := f.get(f.tenant, back); job.State != api.StateQueued || job.Attempt != 0 {
		t.Errorf("the call that hung: %s, attempt %d", job.State, job.Attempt)
	}
	f.submit(f.tenant, "slow", 1)
	time.Sleep(300 * time.Millisecond)
	if len(slow.got()) != 1 {
		t.Error("a core that has stopped still calls")
	}
}
