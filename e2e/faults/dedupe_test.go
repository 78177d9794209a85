package faults_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// oneOfEachSQL names keys of which more than one job runs, or more than one waits.
const oneOfEachSQL = `
SELECT dedupe_key FROM jobs WHERE dedupe_key IS NOT NULL GROUP BY dedupe_key
HAVING count(*) FILTER (WHERE state = 'running') > 1 OR count(*) FILTER (WHERE state <> 'running') > 1`

// Many replace and extend few jobs, by two gateways, while workers run them and cores and gateways are killed. One job of a key runs at
// most and one waits, none is put off for longer than it may be, and what was accepted last runs last.
func TestDedupeUnderKills(t *testing.T) {
	t.Parallel()
	const keys, longest = 10, 2 * time.Second
	submits := lane(200, 1000)
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	l := newLoad(t, c, 3*time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(3*time.Minute))
	defer cancel()
	w := dedupeWorker{load: l, last: map[int]int{}}
	working, stop := context.WithCancel(ctx)
	var workers, producers sync.WaitGroup
	for range 3 {
		workers.Go(func() { w.work(working, l.client(), longest) })
	}
	workers.Go(func() {
		for working.Err() == nil {
			if wrong := stack.Query[string](working, t, c.DatabaseURL, oneOfEachSQL); len(wrong) > 0 {
				t.Errorf("more than one job of %v runs, or waits", wrong)
				return
			}
			pace(working, 20*time.Millisecond)
		}
	})
	clients := []*client.Client{l.client(), l.client()}
	submit := func(n int) {
		key := n % keys
		job := api.SubmitRequest{
			Type: "deduped", Queue: loadQueue, Payload: json.RawMessage(fmt.Sprintf(`{"key": %d, "n": %d}`, key, n)),
			Dedupe: &api.Dedupe{Key: fmt.Sprint("k", key), OnLive: api.OnLiveReplace},
		}
		if key%2 == 1 {
			job.DelayMS, job.Dedupe.OnLive, job.Dedupe.MaxDelayMS = new(int64(300)), api.OnLiveExtend, new(longest.Milliseconds())
		}
		until(ctx, t, func() error {
			_, err := clients[n/keys%2].Submit(ctx, job, client.WithIdempotencyKey(fmt.Sprint("dedupe-", n)))
			return err
		})
	}
	var next atomic.Int64
	for range 8 {
		producers.Go(func() {
			for n := next.Add(1); n <= int64(submits) && ctx.Err() == nil; n = next.Add(1) {
				submit(int(n))
				pace(ctx, 20*time.Millisecond)
			}
		})
	}
	for i := range lane(1, 6) {
		pace(ctx, 300*time.Millisecond)
		for _, p := range []*stack.Service{c.Cores[i%2], c.Gateways[i%2]} {
			p.Kill()
			p.Start()
			p.AwaitReady()
		}
	}
	producers.Wait()
	want := map[int]int{}
	for key := range keys {
		want[key] = 1_000_000*keys + key
		submit(want[key])
	}
	l.drain(2 * time.Minute)
	stop()
	workers.Wait()
	if !maps.Equal(w.last, want) {
		t.Errorf("what ran last of each key: %v", w.last)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("%d submits of %d keys made %d runs", submits+keys, keys, w.runs)
}

// until repeats what fails because a process was killed.
func until(ctx context.Context, t *testing.T, do func() error) {
	t.Helper()
	for ctx.Err() == nil {
		err := do()
		if status := client.Status(err); err == nil || status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusConflict {
			if err != nil {
				t.Error(err)
			}
			return
		}
		pace(ctx, 50*time.Millisecond)
	}
}

// dedupeWorker notes what ran last of each key.
type dedupeWorker struct {
	*load

	mu   sync.Mutex
	last map[int]int
	runs int
}

func (w *dedupeWorker) work(ctx context.Context, c *client.Client, longest time.Duration) {
	for ctx.Err() == nil {
		claimed, err := c.Claim(ctx, api.ClaimRequest{WorkerID: "deduper", Queues: []string{loadQueue}, WaitMS: new(int64(200))})
		if err != nil {
			pace(ctx, 50*time.Millisecond)
			continue
		}
		for _, job := range claimed.Jobs {
			var what struct{ Key, N int }
			if err := json.Unmarshal(job.Payload, &what); err != nil {
				w.t.Error(err)
			}
			w.mu.Lock()
			w.last[what.Key] = what.N
			w.runs++
			w.mu.Unlock()
			if read, err := c.Get(ctx, job.ID); err == nil && read.Attempt == 1 && read.RunAt.Sub(read.CreatedAt.Time) > longest {
				w.t.Errorf("%s was put off by %v", job.ID, read.RunAt.Sub(read.CreatedAt.Time))
			}
			_, _ = c.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}) // otherwise its lease ends
		}
	}
}
