package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// atOnceCompleted is how many jobs complete at the same time: more than the 10 listeners of a signal that Node.js allows without a warning.
const atOnceCompleted = 12

// jobsOnce is a server that gives jobs once, the last of which does not return.
type jobsOnce struct {
	mu        sync.Mutex
	given     bool
	completes int
	// all is closed when the outcomes of the others have come.
	all chan struct{}
}

func (s *jobsOnce) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // only then the server notices that a client leaves
	w.Header().Set("Content-Type", "application/json")
	switch {
	case r.Method == http.MethodDelete:
		w.WriteHeader(http.StatusNoContent)
	case strings.HasSuffix(r.URL.Path, "/claims"):
		s.claims(w, r)
	case strings.HasSuffix(r.URL.Path, "/complete"):
		s.completed(1)
		_, _ = w.Write([]byte("{}"))
	case strings.HasSuffix(r.URL.Path, "/outcomes"):
		var request api.OutcomesRequest
		_ = json.Unmarshal(body, &request)
		answer := api.OutcomesResponse{}
		for i := range request.Outcomes {
			answer.Results = append(answer.Results, api.OutcomeResult{Index: i, Status: http.StatusOK, Outcome: &api.Outcome{}})
		}
		s.completed(len(request.Outcomes))
		_ = json.NewEncoder(w).Encode(answer) // to a program that has ended
	default:
		_, _ = w.Write([]byte("{}"))
	}
}

func (s *jobsOnce) completed(jobs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.completes += jobs; s.completes == atOnceCompleted {
		close(s.all)
	}
}

func (s *jobsOnce) claims(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	given := s.given
	s.given = true
	s.mu.Unlock()
	if given {
		<-r.Context().Done()
		return
	}
	jobs := []map[string]any{}
	for i := range atOnceCompleted + 1 {
		jobs = append(jobs, map[string]any{
			"id": fmt.Sprint("job", i), "tenant": "t", "user": nil, "type": "t", "queue": "q", "payload": i == atOnceCompleted, "priority": 0, "attempt": 1,
			"max_attempts": 1, "epoch": 1, "lease_token": fmt.Sprint("token", i), "lease_ms": 600_000, "deadline": nil, "timeout_ms": nil, "tags": []string{},
			"metadata": map[string]string{}, "correlation_id": nil, "traceparent": nil, "created_at": "2026-01-01T00:00:00Z",
		})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"jobs": jobs}) // to a program that has ended
}

// The process of a worker ends after its signal although a handler does not return, and prints no warning of its runtime.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	for language, command := range map[string][]string{
		"typescript": {"node", "--input-type=module", "--eval", `
import { pathToFileURL } from 'node:url';
const { Client, Worker } = await import(pathToFileURL('forgequeue.js').href);
const worker = new Worker({ client: new Client({ url: process.env.URL, apiKey: 'key' }), graceMs: 1, concurrency: 50 });
worker.handle('t', async (job) => { if (job.payload) await new Promise(() => setInterval(() => {}, 1000)); });
await worker.runUntilSignal();
console.error('returned');`},
		"python": {"python3", "-c", `
import os, sys, time
sys.path.insert(0, ".")
import forgequeue
worker = forgequeue.Worker(forgequeue.Client(os.environ["URL"], "key"), grace=0.001, concurrency=50)
def handler(job):
    while job.payload:
        time.sleep(1)
worker.handle("t", handler)
worker.run_until_signal()
print("returned", file=sys.stderr, flush=True)`},
	} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			jobs := &jobsOnce{all: make(chan struct{})}
			server := httptest.NewServer(jobs)
			t.Cleanup(func() {
				server.CloseClientConnections()
				server.Close()
			})
			process := exec.CommandContext(context.WithoutCancel(t.Context()), stack.Need(t, command[0]), command[1:]...)
			process.Dir, process.Env = packageFolder(t, language), append(os.Environ(), "URL="+server.URL, "PYTHONDONTWRITEBYTECODE=1")
			running := stack.StartCommand(t, process)
			select {
			case <-jobs.all:
			case <-time.After(stack.Patience(time.Minute)):
				t.Fatalf("not all jobs complete\n%s", running.Output())
			}
			running.Signal(syscall.SIGTERM)
			if code := running.Wait(t, time.Minute); code != 0 {
				t.Errorf("the process ended with %d", code)
			}
			if said := running.Output(); !strings.Contains(said, "returned") || strings.Contains(said, "Warning") {
				t.Errorf("the process said:\n%s", said)
			}
		})
	}
}
