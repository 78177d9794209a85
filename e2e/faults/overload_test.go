package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Ten times as much as the stack bears is asked of it by callers who do not wait for
// answers, then PostgreSQL stands still. What is accepted stays accepted, who is
// refused is told so, those who work keep their leases, and afterwards everything is
// as before, without help.
//
// Work comes in batches, so that ten times as many really arrive from this process,
// which has its share of the same two processors: half of them, so that the stack has
// less than it had for its peak.
func TestOverloadAndAFrozenPostgresUnderLoad(t *testing.T) {
	furtherFault(t, "TestPostgresCrashesUnderLoad")
	t.Parallel()
	up := stack.Up(t, stack.Folder(t), "--demo=false")
	c := stack.NewCluster(t, stack.ClusterOptions{
		DatabaseURL: up.SecondDatabase(t), RedisURL: up.Redis.URL,
		Settings: map[string]string{
			"FORGEQUEUE_REQUEST_TIMEOUT": "10s", "FORGEQUEUE_DATABASE_WAIT": "2s", // by default
			"FORGEQUEUE_BODY_MEMORY_MIB": fmt.Sprint(lane(8, 0)), // 0 is the default; a small flood fills 8
		},
	})
	o := &overload{load: newLoad(t, c, stack.Patience(30*time.Second))}
	o.pile(o.client(), batchSize)
	holders := o.hold(8, time.Duration(lane(1, 2))*time.Second)

	peak := o.closed(time.Duration(lane(500, 20_000)) * time.Millisecond)
	flood := o.flood(10*peak/float64(floodBatch()), time.Duration(lane(500, 30_000))*time.Millisecond)
	// A peak that was measured while the machine was busy says too little.
	const surelyTooMuch = 60_000 // jobs a second
	for times := 20.0; flood.refused == 0 && (times <= 320 || times*peak <= surelyTooMuch); times *= 2 {
		flood = o.flood(times*peak/float64(floodBatch()), time.Duration(lane(500, 30_000))*time.Millisecond)
	}
	goodput := float64(flood.accepted) / flood.took.Seconds()
	t.Logf("peak %.0f jobs/s; of %d batches that were due, at least 10 times as many, %d were sent and answered %v; goodput %.0f jobs/s, %.2f of the peak; "+
		"the slowest answer %v; %v", peak, flood.due, flood.sent, flood.answers, goodput, goodput/peak, flood.slowest.Round(time.Millisecond), holders)
	if inLongLane() && goodput < 0.8*peak {
		t.Errorf("the goodput is %.2f of the peak", goodput/peak)
	}
	if offered := float64(flood.sent*floodBatch()) / flood.lasted.Seconds(); flood.refused == 0 || inLongLane() && offered < 2*peak {
		t.Errorf("no overload: %.0f jobs/s were sent, %d batches refused", offered, flood.refused)
	}
	holders.check(t)

	calls := o.callers()
	pace(t.Context(), time.Second)
	thaw := freeze(t, postmaster(t, up))
	frozen := time.Now()
	pace(t.Context(), time.Duration(lane(3, 20))*time.Second)
	during := calls.acceptedOf(frozen)
	thaw()
	thawed := time.Now()
	least := max(float64(lane(0, 80))/100*peak, 1)
	stack.Eventually(t, time.Minute, "goodput is back", func() bool {
		now := time.Now()
		return now.Sub(thawed) > time.Second && float64(calls.accepted(now.Add(-time.Second), now)) >= least
	})
	back := time.Since(thawed)
	calls.stop()
	t.Logf("PostgreSQL stood still for %v; %d calls were refused; %.0f jobs/s again %v after; %v",
		thawed.Sub(frozen).Round(time.Second), calls.refused.Load(), least, back.Round(10*time.Millisecond), holders)
	if during != 0 {
		t.Errorf("no freeze: %d jobs were accepted meanwhile", during)
	}
	holders.stop()
	holders.check(t)
	h, db := o.check()
	if n := expired(db); n > 0 {
		t.Errorf("%d leases have expired", n)
	}
	// Work that is done for callers who are gone is what an overload would live on.
	if vain := h.Count(unknown); inLongLane() && vain > len(h.Accepted())*5/100 {
		t.Errorf("%d jobs were accepted, and of %d nobody knows it", len(h.Accepted()), vain)
	}
	if err := o.noAnswer.Load(); err != nil {
		t.Logf("a call without an answer: %v", *err)
	}
}

// overload is a load of batches. An answer that is neither success nor a refusal
// that asks to come back is an error.
type overload struct {
	*load
	// noAnswer is the first error of a request that got none.
	noAnswer atomic.Pointer[error]
}

// floodBatch is how many jobs a batch has.
func floodBatch() int { return lane(20, 200) }

// answer is what a batch was told.
type answer struct{ status, accepted int }

// send submits a batch once.
func (o *overload) send(c *http.Client) answer {
	body := []byte(`{"jobs":[`)
	size := floodBatch()
	for i := range size {
		n := o.made.Add(1)
		body = fmt.Appendf(body, `{"type":"load","queue":%q,"payload":{"mark":%q}}%.*s`, loadQueue, invariants.Mark(o.tenant.ID, n), min(size-1-i, 1), ",")
	}
	body = append(body, "]}"...)
	request, err := http.NewRequestWithContext(o.t.Context(), http.MethodPost, o.urls[0]+"/v1/jobs/batch", bytes.NewReader(body))
	if err != nil {
		o.t.Error(err)
		return answer{}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+o.tenant.Key)
	response, err := c.Do(request)
	if err != nil {
		o.noAnswer.CompareAndSwap(nil, &err)
		return answer{}
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	told := answer{status: response.StatusCode}
	switch {
	case err != nil:
		o.t.Errorf("no whole answer: %v", err)
	case told.status >= 200 && told.status <= 299:
		var batch api.BatchResponse
		if err := json.Unmarshal(text, &batch); err != nil {
			o.t.Errorf("an answer: %v", err)
		}
		told.accepted = batch.Accepted
		for _, result := range batch.Results {
			if result.Status >= 300 && result.Status != http.StatusServiceUnavailable && result.Status != http.StatusTooManyRequests {
				o.t.Errorf("a job of a batch: %d %+v", result.Status, result.Problem)
			}
		}
	case (told.status != http.StatusServiceUnavailable && told.status != http.StatusTooManyRequests) || response.Header.Get("Retry-After") == "":
		o.t.Errorf("answered %d with Retry-After %q: %.200s", told.status, response.Header.Get("Retry-After"), text)
	}
	return told
}

func (o *overload) brief() (c *http.Client, end func()) {
	base := &http.Transport{MaxIdleConnsPerHost: outstanding}
	return o.noted.BriefClient(o.tenant.ID, base), base.CloseIdleConnections
}

// closedCallers are callers that wait for their answers.
const closedCallers = 16

// closed is the most that they get accepted, in jobs a second.
func (o *overload) closed(within time.Duration) float64 {
	calls := o.callers()
	pace(o.t.Context(), time.Second) // connections are made
	begun := time.Now()
	pace(o.t.Context(), within)
	accepted := 0
	stack.Eventually(o.t, time.Minute, "a batch to be accepted", func() bool {
		accepted = calls.accepted(begun, time.Now())
		return accepted > 0
	})
	took := time.Since(begun)
	calls.stop()
	return float64(accepted) / took.Seconds()
}

// acceptedBatch is a batch of which jobs were accepted, and when it was asked and answered.
type acceptedBatch struct {
	asked, answered time.Time
	jobs            int
}

// calls are those of closedCallers.
type calls struct {
	mu      sync.Mutex
	batches []acceptedBatch
	refused atomic.Int64
	stop    func()
}

// callers submit batches, each its next one when the last was answered; who was
// refused rests for a moment, for less long than it was told to.
func (o *overload) callers() *calls {
	made := &calls{}
	plain, end := o.brief()
	ctx, cancel := context.WithCancel(o.t.Context())
	var group sync.WaitGroup
	for range closedCallers {
		group.Go(func() {
			for ctx.Err() == nil {
				asked := time.Now()
				told := o.send(plain)
				if told.accepted == 0 {
					made.refused.Add(1)
					pace(ctx, 200*time.Millisecond)
					continue
				}
				made.mu.Lock()
				made.batches = append(made.batches, acceptedBatch{asked, time.Now(), told.accepted})
				made.mu.Unlock()
			}
		})
	}
	made.stop = func() { cancel(); group.Wait(); end() }
	return made
}

// accepted counts jobs by when they were answered.
func (c *calls) accepted(from, until time.Time) int {
	return c.count(func(b acceptedBatch) bool { return b.answered.After(from) && !b.answered.After(until) })
}

// acceptedOf counts those jobs that were asked for from a time on. What was asked before
// may have been committed before, however late its answer came.
func (c *calls) acceptedOf(from time.Time) int {
	return c.count(func(b acceptedBatch) bool { return !b.asked.Before(from) })
}

func (c *calls) count(wanted func(acceptedBatch) bool) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, batch := range c.batches {
		if wanted(batch) {
			n += batch.jobs
		}
	}
	return n
}

// flooded is what became of a flood.
type flooded struct {
	due, sent         int // batches
	answers           map[int]int
	refused, accepted int // batches, jobs
	// lasted is how long batches were sent, took until the last one was answered.
	lasted, took, slowest time.Duration
}

// outstanding bounds the batches of a flood that have no answer yet: files and
// memory of this machine have an end. What is due then is not sent.
const outstanding = 6000

// flood sends batches at a rate, whatever becomes of them.
func (o *overload) flood(rate float64, within time.Duration) flooded {
	f := flooded{answers: map[int]int{}}
	plain, end := o.brief()
	defer end()
	var mu sync.Mutex
	var group sync.WaitGroup
	room := make(chan struct{}, outstanding)
	begun := time.Now()
	for ; time.Since(begun) < within; pace(o.t.Context(), time.Millisecond) {
		for due := int(time.Since(begun).Seconds() * rate); f.due < due; f.due++ {
			select {
			case room <- struct{}{}:
			default:
				continue
			}
			f.sent++
			group.Go(func() {
				asked := time.Now()
				told := o.send(plain)
				<-room
				mu.Lock()
				defer mu.Unlock()
				f.slowest = max(f.slowest, time.Since(asked))
				f.answers[told.status]++
				if told.accepted == 0 {
					f.refused++
				}
				f.accepted += told.accepted
			})
		}
	}
	f.lasted = time.Since(begun)
	group.Wait()
	f.took = time.Since(begun)
	return f
}

// holders are workers that keep jobs for a while, beat meanwhile, and complete them.
type holders struct {
	beats, ends, refused, lost atomic.Int64
	stop                       func()
}

func (h *holders) String() string {
	return fmt.Sprintf("workers: %d beats, %d outcomes, %d refused for now, %d leases lost", h.beats.Load(), h.ends.Load(), h.refused.Load(), h.lost.Load())
}

// check says whether those that work were served since it was asked last.
func (h *holders) check(t *testing.T) {
	t.Helper()
	if beats, ends, lost := h.beats.Swap(0), h.ends.Swap(0), h.lost.Load(); beats == 0 || ends == 0 || lost > 0 {
		t.Errorf("%d beats and %d outcomes were served, %d leases lost", beats, ends, lost)
	}
}

func (l *load) hold(n int, held time.Duration) *holders {
	h := &holders{}
	ctx, cancel := context.WithCancel(l.t.Context())
	var group sync.WaitGroup
	for i := range n {
		w := &loopWorker{client: l.client(), id: fmt.Sprint("holder-", i), plan: workerPlan{Queue: loadQueue}}
		group.Go(func() {
			for ctx.Err() == nil {
				for _, job := range w.claim(ctx, 1) {
					h.work(context.WithoutCancel(ctx), w, job, held)
				}
			}
		})
	}
	h.stop = func() { cancel(); group.Wait() }
	return h
}

// work beats for a while, then tells the outcome until it is answered. As the SDK's worker
// does, it gives up a beat after a third of the lease.
func (h *holders) work(ctx context.Context, w *loopWorker, job api.ClaimedJob, held time.Duration) {
	lease := time.Duration(job.LeaseMS) * time.Millisecond
	var next time.Time
	for end := time.Now().Add(held); time.Now().Before(end); pace(ctx, time.Until(next)) {
		next = time.Now().Add(held / 4)
		due, cancel := context.WithTimeout(ctx, lease/3)
		beat, err := w.client.Heartbeat(due, w.id, []api.Lease{{JobID: job.ID, LeaseToken: job.LeaseToken}})
		cancel()
		switch {
		case err != nil:
			h.refused.Add(1)
		case len(beat.Leases) != 1 || beat.Leases[0].Status == api.LeaseLost:
			h.lost.Add(1)
			return
		default:
			h.beats.Add(1)
		}
	}
	for end := time.Now().Add(stack.Patience(time.Minute)); time.Now().Before(end); pace(ctx, 50*time.Millisecond) {
		_, err := w.client.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken})
		switch status := client.Status(err); {
		case err == nil:
			h.ends.Add(1)
			return
		case status >= 400 && status <= 499:
			h.lost.Add(1)
			return
		}
		h.refused.Add(1)
	}
	h.lost.Add(1)
}

// freeze stops a PostgreSQL, all of its processes, until thaw is called.
func freeze(t *testing.T, postmaster int) (thaw func()) {
	t.Helper()
	if postmaster == 0 {
		t.Fatal("there is no PostgreSQL")
	}
	stopped := []int{postmaster} // the parent first: it then has no new children
	signal := func(pid int, signal syscall.Signal) {
		if err := syscall.Kill(pid, signal); err != nil && err != syscall.ESRCH {
			t.Errorf("signal %v to %d: %v", signal, pid, err)
		}
	}
	signal(postmaster, syscall.SIGSTOP)
	for _, child := range childrenOf(t, postmaster) {
		signal(child, syscall.SIGSTOP)
		stopped = append(stopped, child)
	}
	thaw = sync.OnceFunc(func() {
		for _, pid := range slices.Backward(stopped) {
			signal(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(thaw)
	return thaw
}

// childrenOf gives the processes that a process has started.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		if os.Getenv("CI") != "" {
			t.Fatalf("/proc is missing, so that PostgreSQL's processes cannot be found and stopped: %v", err)
		}
		t.Skipf("/proc is missing, so that PostgreSQL's processes cannot be found and stopped: %v", err)
	}
	var children []int
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …, and the name may hold anything
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}
