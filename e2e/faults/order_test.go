package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/invariants"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// Two cores and two gateways are killed in turn under clients that submit with few keys, cancel, read and work on the
// same jobs at the same time, and that fill and empty queues with a cap. All answers are those of one machine that does
// one request after the other: package invariants looks for that order with Porcupine.
func TestAnswersHaveAnOrder(t *testing.T) {
	furtherFault(t, "TestHTTPAnswersLost")
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	l := newLoad(t, c, 2*time.Second)
	r := &racers{load: l, http: l.noted.Client(l.tenant.ID, &http.Transport{MaxIdleConnsPerHost: 100})}
	const capped, limit = 4, 3
	for i := range capped {
		c.SetQueue(t, l.tenant, cappedQueue(i), map[string]any{"max_active": limit})
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { r.repeat(ctx, r.submitKeyed) })
		group.Go(func() { r.repeat(ctx, r.cancelOne) })
		group.Go(func() { r.repeat(ctx, r.readOne) })
	}
	for i := range capped {
		for range 3 {
			group.Go(func() { r.fillCap(ctx, cappedQueue(i)) })
		}
	}
	stopWork := l.work(3, 10*time.Millisecond)
	killed := 0
	for i := range lane(6, 120) {
		pace(t.Context(), moment(300*time.Millisecond, 900*time.Millisecond))
		victim := [...]*stack.Service{c.Cores[0], c.Gateways[1], c.Cores[1], c.Gateways[0]}[i%4]
		if victim.Kill() {
			killed++
		}
		victim.Start()
		victim.AwaitReady()
		for _, gateway := range c.Gateways {
			gateway.AwaitReady()
		}
	}
	pace(t.Context(), 500*time.Millisecond)
	cancel()
	group.Wait()
	r.emptyCaps(capped)
	l.drain(90 * time.Second)
	stopWork()
	h, db := l.check()
	for i := range capped {
		if found := invariants.LinearCap(h, db, cappedQueue(i), limit); len(found) > 0 {
			t.Error(strings.Join(found, "\n"))
		}
	}
	count := func(op string, status int) int {
		return h.Count(func(e invariants.Event) bool { return e.Op == op && e.Status == status })
	}
	for name, n := range map[string]int{
		"keys with another body": count(invariants.OpSubmit, 422), "refusals of a full queue": count(invariants.OpSubmit, 429),
		"cancelled jobs": count(invariants.OpCancel, 200), "reads": count(invariants.OpRead, 200),
		"requests disturbed": h.Count(disturbed), "kills": killed,
	} {
		if n == 0 {
			t.Errorf("there were no %s", name)
		}
		t.Logf("%d %s", n, name)
	}
}

func cappedQueue(i int) string { return fmt.Sprint("capped-", i) }

// racers make requests that meet each other. Each is sent once: what a repeat would hide is what matters here.
type racers struct {
	*load
	http *http.Client

	mu   sync.Mutex
	jobs []string
}

func (r *racers) repeat(ctx context.Context, one func(context.Context)) {
	for ctx.Err() == nil {
		one(ctx)
		pace(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
	}
}

// call sends a request to one of the gateways and gives its status, 0 for no answer, and the job of the answer.
func (r *racers) call(ctx context.Context, method, path, key string, body any) (status int, job api.JobSummary) {
	text, err := json.Marshal(body)
	if err != nil {
		r.t.Error(err)
	}
	if body == nil {
		text = nil
	}
	// Not ctx: a request that is broken off at the end would be one more without an answer.
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, r.urls[rand.IntN(len(r.urls))]+path, bytes.NewReader(text))
	if err != nil {
		r.t.Error(err)
		return 0, job
	}
	request.Header.Set("Authorization", "Bearer "+r.tenant.Key)
	if text != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := r.http.Do(request)
	if err != nil {
		return 0, job
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, job
	}
	_ = json.Unmarshal(answer, &job) // a problem has no id
	return response.StatusCode, job
}

// submitKeyed uses few keys, each with two bodies.
func (r *racers) submitKeyed(ctx context.Context) {
	n := rand.IntN(4 * lane(20, 400))
	request := r.numbered(int64(10_000 + n))
	if _, job := r.call(ctx, http.MethodPost, "/v1/jobs", fmt.Sprint("shared-", n/2), request); job.ID != "" {
		r.mu.Lock()
		r.jobs = append(r.jobs, job.ID)
		r.mu.Unlock()
	}
}

// oneOfTheLast is a job that others know too.
func (r *racers) oneOfTheLast() (id string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.jobs) == 0 {
		return "", false
	}
	last := r.jobs[max(0, len(r.jobs)-10):]
	return last[rand.IntN(len(last))], true
}

func (r *racers) cancelOne(ctx context.Context) {
	if id, ok := r.oneOfTheLast(); ok && rand.IntN(8) == 0 { // most are to run
		r.call(ctx, http.MethodPost, "/v1/jobs/"+id+"/cancel", "", nil)
	}
}

func (r *racers) readOne(ctx context.Context) {
	if id, ok := r.oneOfTheLast(); ok {
		r.call(ctx, http.MethodGet, "/v1/jobs/"+id, "", nil)
	}
}

// fillCap submits to a queue with a cap, and cancels what it has submitted.
func (r *racers) fillCap(ctx context.Context, queue string) {
	var mine []string
	r.repeat(ctx, func(ctx context.Context) {
		if len(mine) > 0 && rand.IntN(2) == 0 {
			if status, _ := r.call(ctx, http.MethodPost, "/v1/jobs/"+mine[0]+"/cancel", "", nil); status == http.StatusOK {
				mine = mine[1:]
			}
			return
		}
		request := r.request()
		request.Queue = queue
		if status, job := r.call(ctx, http.MethodPost, "/v1/jobs", "", request); status == http.StatusAccepted {
			mine = append(mine, job.ID)
		}
		// A cap's history is one search for all of its requests.
		pace(ctx, 40*time.Millisecond)
	})
}

// emptyCaps cancels what waits in the queues with a cap, also the jobs whose submit got no answer.
func (r *racers) emptyCaps(queues int) {
	c := r.client()
	for i := range queues {
		stack.Eventually(r.t, time.Minute, "the capped queues are empty", func() bool {
			page, err := c.List(r.t.Context(), api.JobFilter{Queue: cappedQueue(i), States: []string{api.StateQueued}}, client.PageRequest{})
			if err != nil {
				return false
			}
			for _, job := range page.Items {
				_, _ = c.Cancel(r.t.Context(), job.ID) // seen at the next look
			}
			return len(page.Items) == 0
		})
	}
}
