package worker_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/internal/pipenet"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// server keeps real leases in memory: claims, heartbeats, outcomes and a reaper,
// as the contract has them. It lives on a network of pipes, so that it runs
// inside a synctest bubble, where an hour of leases takes a moment.
type server struct {
	t          *testing.T
	client     *client.Client
	transport  *http.Transport
	handler    http.Handler
	visibility time.Duration
	// ahead is how far the server's clock is ahead of the worker's.
	ahead time.Duration

	mu sync.Mutex
	// spoil answers a request in the server's place where it returns true.
	spoil func(route string, w http.ResponseWriter, r *http.Request) bool
	// retell changes what POST /v1/outcomes answers.
	retell func(*api.OutcomesResponse)
	// parents answers GET /v1/jobs/{id}/parents.
	parents  http.HandlerFunc
	jobs     []*job
	arrived  chan struct{} // closed and renewed when a job can be claimed
	known    map[string]bool
	beats    []beat
	outcomes []outcome
	claims   []api.ClaimRequest
	// said are the chunks of output, and its requests those that were accepted, repeats among them.
	said         []api.OutputChunk
	saidRequests []api.OutputRequest
	// left are the workers that said goodbye.
	left []string
	// flushes has the number of outcomes in each request that carried any.
	flushes []int
	registered,
	running, mostRunning int
}

type job struct {
	api.ClaimedJob
	state     string
	expires   time.Time
	cancelled bool
	last      string // the last outcome's token, kind and body
	// What the last outcome's answer tells beside the state.
	runAt      *api.Time
	deadReason *string
}

type beat struct {
	at     time.Time
	leases []string
	// reports are those of the leases that were held.
	reports []api.Lease
}

type outcome struct {
	kind, jobID string
	body        api.OutcomeRequest
	// held is how long the lease was held since it was last extended.
	held time.Duration
}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, visibility: api.DefaultVisibilityTimeout, arrived: make(chan struct{}), known: map[string]bool{}}
	listener := pipenet.New()
	mux := http.NewServeMux()
	for route, handle := range map[string]http.HandlerFunc{
		"POST /v1/workers": s.register, "POST /v1/workers/{id}/heartbeat": s.heartbeat,
		"DELETE /v1/workers/{id}": s.leave,
		"POST /v1/claims":         s.claim, "POST /v1/jobs/{id}/{kind}": s.oneOutcome, "POST /v1/outcomes": s.manyOutcomes,
		"POST /v1/jobs/{id}/output": s.output,
		"GET /v1/jobs/{id}/parents": func(w http.ResponseWriter, r *http.Request) { s.parents(w, r) },
	} {
		mux.HandleFunc(route, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			r.Body = io.NopCloser(bytes.NewReader(body))
			w.Header().Set("Date", s.now().UTC().Format(http.TimeFormat))
			s.mu.Lock()
			spoil := s.spoil
			s.mu.Unlock()
			if spoil == nil || !spoil(route, w, r) {
				handle(w, r)
			}
		})
	}
	s.handler = mux
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: mux}}
	web.Start()
	transport := &http.Transport{MaxIdleConnsPerHost: 100, DialContext: listener.Dial}
	s.transport, s.client = transport, s.connect(transport)
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		web.Close()
	})
	return s
}

func (s *server) connect(transport http.RoundTripper) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Options{URL: "http://forgequeue.test", APIKey: "fq_test", HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *server) spoilWith(spoil func(route string, w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = spoil
}

// onParents answers calls for the parents of jobs; it is set before the worker runs.
func (s *server) onParents(answer http.HandlerFunc) { s.parents = answer }

func (s *server) now() time.Time { return time.Now().Add(s.ahead) }

// submit queues a job; change sets more than type and payload.
func (s *server) submit(jobType, payload string, change ...func(*api.ClaimedJob)) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	made := &job{state: api.StateQueued, ClaimedJob: api.ClaimedJob{
		ID: fmt.Sprintf("job-%d", len(s.jobs)+1), Tenant: "t1", Type: jobType, Queue: api.DefaultQueue,
		Payload: json.RawMessage(payload), MaxAttempts: 3, CreatedAt: api.At(s.now()),
	}}
	for _, c := range change {
		c(&made.ClaimedJob)
	}
	s.jobs = append(s.jobs, made)
	s.wake()
	return made.ID
}

func (s *server) wake() {
	close(s.arrived)
	s.arrived = make(chan struct{})
}

// reap takes back the leases that are over; s.mu is held.
func (s *server) reap() {
	for _, j := range s.jobs {
		if j.state == api.StateRunning && !s.now().Before(j.expires) {
			s.take(j)
		}
	}
}

func (s *server) take(j *job) {
	j.state, j.LeaseToken = api.StateQueued, ""
	s.running--
	s.wake()
}

// steal takes a lease back before its time, as when a worker turned DEAD.
func (s *server) steal(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.take(s.find(id))
}

func (s *server) cancel(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(id).cancelled = true
}

func (s *server) forgetWorkers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
}

func (s *server) find(id string) *job {
	for _, j := range s.jobs {
		if j.ID == id {
			return j
		}
	}
	return nil
}

func (s *server) state(id string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
	return s.find(id).state
}

func (s *server) register(w http.ResponseWriter, r *http.Request) {
	var request api.WorkerRequest
	s.read(r, &request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[request.WorkerID] = true
	s.registered++
	reply(w, api.Worker{WorkerID: request.WorkerID, Status: api.WorkerActive})
}

func (s *server) heartbeat(w http.ResponseWriter, r *http.Request) {
	var request api.HeartbeatRequest
	s.read(r, &request)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
	if !s.known[r.PathValue("id")] {
		problem.New(problem.WorkerUnknown, "register").Write(w)
		return
	}
	sent := beat{at: time.Now()}
	answer := api.HeartbeatResponse{Status: api.WorkerActive, Leases: []api.LeaseStatus{}}
	for _, l := range request.Leases {
		sent.leases = append(sent.leases, l.JobID)
		status := api.LeaseStatus{JobID: l.JobID, Status: api.LeaseLost}
		if j := s.find(l.JobID); j != nil && j.state == api.StateRunning && j.LeaseToken == l.LeaseToken {
			status.Status = api.LeaseOK
			if l.Progress != nil || l.Checkpoint != nil {
				sent.reports = append(sent.reports, l)
			}
			if l.Checkpoint != nil {
				j.Checkpoint = l.Checkpoint
			}
			if j.cancelled {
				status.Status = api.LeaseCancel
			}
			j.expires = s.now().Add(s.visibility)
			at := api.At(j.expires)
			status.LeaseExpiresAt = &at
			status.LeaseMS = new(s.visibility.Milliseconds())
		}
		answer.Leases = append(answer.Leases, status)
	}
	s.beats = append(s.beats, sent)
	reply(w, answer)
}

// output keeps what the holder of a lease says; of one attempt in each test.
func (s *server) output(w http.ResponseWriter, r *http.Request) {
	var request api.OutputRequest
	s.read(r, &request)
	if faults := request.Validate(); len(faults) > 0 {
		s.t.Errorf("output: %v", faults)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.find(r.PathValue("id")); j == nil || j.state != api.StateRunning || j.LeaseToken != request.LeaseToken {
		problem.New(problem.LeaseLost, "").Write(w)
		return
	}
	s.saidRequests = append(s.saidRequests, request)
	for _, chunk := range request.Chunks {
		if chunk.Seq > int64(len(s.said)) {
			s.said = append(s.said, chunk)
		}
	}
	w.WriteHeader(http.StatusAccepted)
	reply(w, api.OutputAccepted{NextSeq: int64(len(s.said)) + 1})
}

// leave forgets the worker, and takes back all leases: no test has two workers.
func (s *server) leave(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, r.PathValue("id"))
	s.left = append(s.left, r.PathValue("id"))
	for _, j := range s.jobs {
		if j.state == api.StateRunning {
			j.Attempt--
			s.take(j)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) claim(w http.ResponseWriter, r *http.Request) {
	var request api.ClaimRequest
	s.read(r, &request)
	s.mu.Lock()
	s.claims = append(s.claims, request)
	s.known[request.WorkerID] = true
	s.mu.Unlock()
	end := time.After(time.Duration(*request.WaitMS) * time.Millisecond)
	for {
		jobs, arrived := s.lease(*request.Max)
		if len(jobs) > 0 {
			reply(w, api.ClaimResponse{Jobs: jobs})
			return
		}
		select {
		case <-arrived:
		case <-r.Context().Done():
			return
		case <-end:
			reply(w, api.ClaimResponse{Jobs: []api.ClaimedJob{}})
			return
		}
	}
}

func (s *server) lease(most int) ([]api.ClaimedJob, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reap()
	var jobs []api.ClaimedJob
	for _, j := range s.jobs {
		if j.state != api.StateQueued || len(jobs) == most {
			continue
		}
		j.state, j.expires = api.StateRunning, s.now().Add(s.visibility)
		j.Attempt++
		j.Epoch++
		j.LeaseToken = fmt.Sprintf("%s.%d", j.ID, j.Epoch)
		j.LeaseExpiresAt = api.At(j.expires)
		j.LeaseMS = s.visibility.Milliseconds()
		jobs = append(jobs, j.ClaimedJob)
		s.running++
		s.mostRunning = max(s.mostRunning, s.running)
	}
	return jobs, s.arrived
}

func (s *server) read(r *http.Request, into any) {
	if err := json.NewDecoder(r.Body).Decode(into); err != nil {
		s.t.Errorf("%s: %v", r.URL.Path, err)
	}
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}
