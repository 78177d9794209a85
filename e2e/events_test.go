package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// lineReader gives the lines of a stream as they come; it is closed at its end.
func lineReader(scanner *bufio.Scanner) <-chan string {
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	return lines
}

// await reads until the event of that name with a job in that state, and gives the job.
func await(t *testing.T, lines <-chan string, event, state string) (job api.Job) {
	t.Helper()
	awaitEvent(t, lines, event, state, func(data []byte) (string, error) {
		job = api.Job{}
		err := json.Unmarshal(data, &job)
		return job.State, err
	})
	return job
}

// awaitOutput reads until the output with that text.
func awaitOutput(t *testing.T, lines <-chan string, text string) {
	t.Helper()
	awaitEvent(t, lines, "output", text, func(data []byte) (string, error) {
		var chunk api.Output
		err := json.Unmarshal(data, &chunk)
		return chunk.Text, err
	})
}

// awaitEvent reads until an event of that name whose data has the value.
func awaitEvent(t *testing.T, lines <-chan string, event, value string, of func(data []byte) (string, error)) {
	t.Helper()
	over := time.After(stack.Patience(20 * time.Second))
	name, last := "", ""
	for {
		select {
		case line, open := <-lines:
			if !open {
				t.Fatalf("the stream ended before %s %s", event, value)
			}
			if said, ok := strings.CutPrefix(line, "event: "); ok {
				name = said
			}
			data, ok := strings.CutPrefix(line, "data: ")
			if !ok || name != event {
				continue
			}
			var err error
			if last, err = of([]byte(data)); err != nil {
				t.Fatal(err)
			}
			if last == value {
				return
			}
		case <-over:
			t.Fatalf("no event %s %s; the last %s was %s", event, value, event, last)
		}
	}
}

// A job is followed with curl: each state, its progress, its end, and then curl ends.
func TestEventsWithCurl(t *testing.T) {
	t.Parallel()
	s := stack.Shared(t)
	c := s.Client(t)
	id := stack.Submit(t, c, api.SubmitRequest{Type: "watched", Queue: "q"})
	curl := exec.CommandContext(t.Context(), stack.Need(t, "curl"), "-sSN", "--max-time", "60",
		"-H", "Authorization: Bearer "+s.APIKey, s.Gateway+"/v1/jobs/"+id+"/events")
	output, err := curl.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := curl.Start(); err != nil {
		t.Fatal(err)
	}
	lines := lineReader(bufio.NewScanner(output))
	await(t, lines, "job", api.StateQueued)
	job := stack.ClaimOne(t, c, "w1", "q")
	await(t, lines, "job", api.StateRunning)
	if _, err := c.Heartbeat(t.Context(), "w1", []api.Lease{{JobID: id, LeaseToken: job.LeaseToken, Progress: &api.Progress{Percent: new(40.0)}}}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, lines, "job", api.StateRunning); got.Progress == nil || *got.Progress.Percent != 40 {
		t.Errorf("%+v", got.Progress)
	}
	if _, err := c.Complete(t.Context(), id, api.CompleteRequest{LeaseToken: job.LeaseToken, Result: json.RawMessage(`{"pages":30}`)}); err != nil {
		t.Fatal(err)
	}
	if got := await(t, lines, "end", api.StateCompleted); string(got.Result) != `{"pages":30}` {
		t.Errorf("%s", got.Result)
	}
	for range lines { // its end
	}
	if err := curl.Wait(); err != nil {
		t.Error(err)
	}
}

func openEvents(ctx context.Context, t *testing.T, gateway, key, id string) <-chan string {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, gateway+"/v1/jobs/"+id+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	return lineReader(bufio.NewScanner(response.Body))
}

// A core that is killed ends no stream; one that stops, and a gateway that stops, send again.
func TestEventsWhileServicesStop(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	tenant := c.NewTenant(t, "watched")
	client := c.Client(t, tenant.Key)
	id := stack.Submit(t, client, api.SubmitRequest{Type: "watched", Queue: "q"})
	lines := openEvents(t.Context(), t, c.Gateways[0].URL, tenant.Key, id)
	await(t, lines, "job", api.StateQueued)
	c.Cores[0].Kill()
	c.Cores[0].Start()
	c.Cores[0].AwaitReady()
	c.Gateways[0].AwaitReady()
	stack.ClaimOne(t, client, "w1", "q")
	await(t, lines, "job", api.StateRunning)
	// After an event the gateway pauses for a moment. A core that has gone by then has not said that it stops: the stream goes on when
	// one is there, and has no reason to send again.
	stack.Eventually(t, 20*time.Second, "the stream's call is at the core", func() bool {
		return c.Gateways[0].Metric(`forgequeue_hop_in_flight{class="parked"}`) > 0
	})
	c.Cores[0].Stop()
	await(t, lines, "again", "")
	c.Cores[0].Start()
	c.Cores[0].AwaitReady()
	c.Gateways[0].AwaitReady()
	lines = openEvents(t.Context(), t, c.Gateways[0].URL, tenant.Key, id)
	await(t, lines, "job", api.StateRunning)
	go c.Gateways[0].Stop()
	await(t, lines, "again", "")
}
