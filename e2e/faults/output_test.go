package faults_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

const (
	// chunksAtOnce of chunksPerSecond are in a request of a speaker.
	chunksAtOnce, chunksPerSecond = 5, 20
	// reconnects is how often a reader begins again.
	reconnects = 20
)

// Many jobs speak, while cores and gateways are killed. Readers that begin again and again, at another gateway each time, have what each
// job said: every byte, once, in order. Readers that do not read are no matter to them.
func TestOutputOverReconnects(t *testing.T) {
	t.Parallel()
	streams, seconds := lane(12, 1000), lane(5, 30)
	c := stack.NewCluster(t, stack.ClusterOptions{Cores: 2, Gateways: 2})
	l := newLoad(t, c, 15*time.Minute) // nobody extends the leases
	ctx, cancel := context.WithTimeout(t.Context(), stack.Patience(8*time.Minute))
	defer cancel()
	ids := make([]string, streams)
	clients := []*client.Client{l.client(), l.client()}
	for i := range ids {
		made, err := clients[i%2].Submit(t.Context(), api.SubmitRequest{Type: "speaks", Queue: loadQueue})
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = made.ID
	}
	jobs := map[string]api.ClaimedJob{}
	for len(jobs) < streams {
		claimed, err := clients[0].Claim(t.Context(), api.ClaimRequest{WorkerID: "speaker", Queues: []string{loadQueue}, Max: new(streams - len(jobs))})
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range claimed.Jobs {
			jobs[job.ID] = job
		}
	}
	for range min(streams/4, 8) { // they take their first events, and no more
		response := l.openEvents(t.Context(), ids[0], "", 0)
		if response == nil {
			t.Fatal("no stream")
		}
		t.Cleanup(func() { _ = response.Body.Close() })
	}
	speaking, hush := context.WithCancel(ctx)
	defer hush()
	var beating sync.WaitGroup
	beating.Go(func() { // or the worker is DEAD after two minutes
		for speaking.Err() == nil {
			_, _ = clients[0].Heartbeat(speaking, "speaker", nil)
			pace(speaking, 10*time.Second)
		}
	})
	said := make([]string, streams)
	heard := make([]*reading, streams)
	var all sync.WaitGroup
	for i, id := range ids {
		all.Go(func() { said[i] = l.speak(ctx, clients[i%2], jobs[id], seconds*chunksPerSecond) })
		heard[i] = &reading{}
		all.Go(func() { l.listen(ctx, id, heard[i], time.Duration(seconds)*time.Second/reconnects) })
	}
	var killing sync.WaitGroup
	killing.Go(func() {
		for i := range 2 {
			pace(t.Context(), time.Duration(seconds)*time.Second/4)
			c.Cores[i].Kill()
			c.Cores[i].Start()
			c.Cores[i].AwaitReady()
			c.Gateways[i].Kill()
			c.Gateways[i].Start()
			c.Gateways[i].AwaitReady()
		}
	})
	killing.Wait()
	all.Wait()
	hush()
	beating.Wait()
	bytes, opened := 0, 0
	for i := range ids {
		bytes, opened = bytes+len(said[i]), opened+heard[i].opened
		if got := heard[i].text.String(); got != said[i] {
			t.Errorf("job %d: %d bytes were said, %d heard; they differ at %d", i, len(said[i]), len(got), commonPrefix(got, said[i]))
		}
	}
	stale := jobs[ids[0]]
	_, err := clients[0].AppendOutput(t.Context(), stale.ID, api.OutputRequest{LeaseToken: stale.LeaseToken, Chunks: []api.OutputChunk{{Seq: 1_000_000, Stream: api.OutputOut, Text: "late"}}})
	if client.Status(err) != http.StatusConflict {
		t.Errorf("a stale holder: %v", err)
	}
	if lines := c.Verify(t); len(lines) > 0 {
		t.Error(lines)
	}
	t.Logf("%d streams, %d bytes, opened %d times", streams, bytes, opened)
}

func commonPrefix(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

// speak says so many chunks, each until it is accepted, and completes the job.
func (l *load) speak(ctx context.Context, c *client.Client, job api.ClaimedJob, chunks int) string {
	var said strings.Builder
	until := func(do func() error) {
		for ctx.Err() == nil {
			err := do()
			if status := client.Status(err); err == nil || status >= 400 && status < 500 && status != http.StatusTooManyRequests {
				if err != nil {
					l.t.Error(err)
				}
				return
			}
			pace(ctx, 50*time.Millisecond)
		}
	}
	for seq := 1; seq <= chunks; seq += chunksAtOnce {
		begun := time.Now()
		some := make([]api.OutputChunk, chunksAtOnce)
		for i := range some {
			some[i] = api.OutputChunk{Seq: int64(seq + i), Stream: api.OutputOut, Text: fmt.Sprintf("%d: <tag> \"é\" %d", seq+i, rand.Int64())}
			if i%3 > 0 {
				some[i].Text += "\n"
			}
			said.WriteString(some[i].Text)
		}
		until(func() error {
			_, err := c.AppendOutput(ctx, job.ID, api.OutputRequest{LeaseToken: job.LeaseToken, Chunks: some})
			return err
		})
		pace(ctx, time.Second*chunksAtOnce/chunksPerSecond-time.Since(begun))
	}
	until(func() error {
		_, err := c.Complete(ctx, job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken})
		return err
	})
	return said.String()
}

// reading is what a reader has.
type reading struct {
	text   strings.Builder
	last   string
	opened int
}

// listen reads a job's events until its end, and begins again after about a time.
func (l *load) listen(ctx context.Context, id string, to *reading, about time.Duration) {
	for ctx.Err() == nil {
		life := about/2 + rand.N(about)
		if to.opened > 2*reconnects { // the jobs take longer than they should
			life = time.Minute
		}
		one, cancel := context.WithTimeout(ctx, life)
		ended := l.listenOnce(one, id, to)
		cancel()
		if ended {
			return
		}
	}
}

func (l *load) listenOnce(ctx context.Context, id string, to *reading) (ended bool) {
	to.opened++
	response := l.openEvents(ctx, id, to.last, to.opened)
	if response == nil {
		pace(ctx, 50*time.Millisecond)
		return false
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	var name, place, data string
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "id: "):
			place = line[len("id: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && name == "end":
			return true
		case line == "" && name == "output": // an event that is cut off is none
			var chunk api.Output
			if err := json.Unmarshal([]byte(data), &chunk); err != nil || chunk.ID != place {
				l.t.Errorf("%s: %v", data, err)
			}
			to.text.WriteString(chunk.Text)
			to.last, name = place, ""
		}
	}
	return false
}

// openEvents opens a job's events at a gateway; nil where it does not answer.
func (l *load) openEvents(ctx context.Context, id, last string, gateway int) *http.Response {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.urls[gateway%len(l.urls)]+"/v1/jobs/"+id+"/events", nil)
	if err != nil {
		l.t.Error(err)
		return nil
	}
	request.Header.Set("Authorization", "Bearer "+l.tenant.Key)
	if last != "" {
		request.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil
	}
	return response
}
