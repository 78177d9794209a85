package outbox_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// server takes batches as ForgeQueue does: an answer is saved under its key once a job of it was stored.
type server struct {
	*httptest.Server
	tb testing.TB

	mu    sync.Mutex
	saved map[string]saved
	// jobs are those stored, in order.
	jobs []api.SubmitRequest
	// requests counts those that came, bodies are theirs by key.
	requests int
	bodies   map[string]string
	// whole refuses a request as a whole before anything else; nil does not.
	whole func(n int, jobs []api.SubmitRequest) *problem.Problem
	// each refuses one job; nil does not.
	each func(job api.SubmitRequest) *problem.Problem
	// lose says that the answer to a request is lost, after its jobs were stored.
	lose func(n int) bool
	// before is called with each request, without the lock.
	before func(jobs []api.SubmitRequest)
}

type saved struct {
	body   string
	answer api.BatchResponse
}

func newServer(tb testing.TB) *server {
	tb.Helper()
	s := &server{tb: tb, saved: map[string]saved{}, bodies: map[string]string{}}
	s.Server = httptest.NewServer(s)
	tb.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var batch api.BatchRequest
	if err == nil {
		err = json.Unmarshal(body, &batch)
	}
	key := r.Header.Get("Idempotency-Key")
	if err != nil || r.URL.Path != "/v1/jobs/batch" || key == "" || len(batch.Jobs) == 0 {
		s.tb.Errorf("%s with key %q: %v", r.URL.Path, key, err)
		return
	}
	if s.before != nil {
		s.before(batch.Jobs)
	}
	answer, refused, lost := s.take(key, string(body), batch.Jobs)
	switch {
	case lost:
		panic(http.ErrAbortHandler)
	case refused != nil:
		write(w, problem.ContentType, refused.Status, refused)
	default:
		write(w, "application/json", http.StatusOK, answer)
	}
}

func (s *server) take(key, body string, jobs []api.SubmitRequest) (answer api.BatchResponse, refused *problem.Problem, lost bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if earlier, ok := s.bodies[key]; ok && earlier != body {
		s.tb.Errorf("the key %s came with two bodies:\n%s\n%s", key, earlier, body)
	}
	s.bodies[key] = body
	n := s.requests
	lost = s.lose != nil && s.lose(n)
	if s.whole != nil {
		if p := s.whole(n, jobs); p != nil {
			return answer, p, lost
		}
	}
	if known, ok := s.saved[key]; ok {
		return known.answer, nil, lost
	}
	answer.Results = []api.BatchResult{}
	for i, job := range jobs {
		var p *problem.Problem
		if s.each != nil {
			p = s.each(job)
		}
		if p != nil {
			answer.Results = append(answer.Results, api.BatchResult{Index: i, Status: p.Status, Problem: p})
			answer.Rejected++
			continue
		}
		s.jobs = append(s.jobs, job)
		id := "00000000-0000-7000-8000-" + strconv.FormatInt(100_000_000_000+int64(len(s.jobs)), 10)
		answer.Results = append(answer.Results, api.BatchResult{Index: i, Status: http.StatusAccepted, Job: &api.BatchJob{ID: id, State: api.StateQueued}})
		answer.Accepted++
	}
	if answer.Accepted > 0 {
		s.saved[key] = saved{body, answer}
	}
	return answer, nil, lost
}

func write(w http.ResponseWriter, media string, status int, value any) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}

// set changes the server while it runs.
func (s *server) set(change func(s *server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// stored are the jobs by their payloads as text.
func (s *server) stored() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := make([]string, len(s.jobs))
	for i, job := range s.jobs {
		texts[i] = string(job.Payload)
	}
	return texts
}

func (s *server) came() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}
