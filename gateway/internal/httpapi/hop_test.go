package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const claimOf25s = `{"worker_id":"w","queues":["q"],"wait_ms":25000}`

// When the gateway stops, whoever waits for jobs is told that there are none, and
// whoever waits for a job is told how it is.
func TestDrainAnswersWhoWaits(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	parked := make(chan struct{}, 3)
	held := func(_ http.ResponseWriter, r *http.Request) {
		parked <- struct{}{}
		<-r.Context().Done()
	}
	d.core.Raw(hop.ClaimJobs.Path, held)
	d.core.Raw(hop.WaitForJob.Path, held)
	d.holding("running", "running")
	d.accept()
	key := d.key("work", "read", "submit")
	var group sync.WaitGroup
	group.Go(func() {
		if got := d.do("POST", "/v1/claims", key, claimOf25s); got.status != 200 || string(got.body) != `{"jobs":[]}` {
			t.Errorf("a claim: %d %s", got.status, got.body)
		}
	})
	group.Go(func() {
		if got := d.do("GET", "/v1/jobs/"+jobID, key, "", "Prefer", "wait=20"); got.status != 200 || got.state(t) != "running" {
			t.Errorf("a read: %d %s", got.status, got.body)
		}
	})
	group.Go(func() {
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, "Prefer", "wait=20"); got.status != 202 || got.header.Get("Preference-Applied") != "" {
			t.Errorf("a submit: %d %s", got.status, got.body)
		}
	})
	for range 3 {
		<-parked
	}
	d.hop.Drain()
	group.Wait()
	if got := d.do("POST", "/v1/claims", key, claimOf25s); got.status != 200 || string(got.body) != `{"jobs":[]}` {
		t.Errorf("a claim after that: %d %s", got.status, got.body)
	}
}

// Core leased jobs as the caller left: they go back at once, attempt included.
func TestJobsUnderWayGoBackWhenTheCallerLeaves(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	parked := make(chan struct{})
	d.core.Raw(hop.ClaimJobs.Path, func(w http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
		_, _ = fmt.Fprintf(w, `{"results":[{"status":200,"value":{"jobs":[{"id":%q,"lease_token":"t"}]}}]}`, jobID)
	})
	released := make(chan struct{})
	d.core.On(hop.ReportOutcomes.Path, func(coretest.Item) coretest.Result {
		close(released)
		return coretest.Value(200, api.OutcomesResponse{Results: []api.OutcomeResult{{Status: 200}}})
	})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/claims", strings.NewReader(claimOf25s))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+d.key("work"))
	request.Header.Set("Content-Type", "application/json")
	go func() {
		<-parked
		leave()
	}()
	if response, err := d.client.Do(request); err == nil {
		_ = response.Body.Close()
		t.Fatal("a caller that had left got an answer")
	}
	select {
	case <-released:
	case <-time.After(hang):
		t.Fatal("the jobs did not go back")
	}
	var lines []map[string]any
	for began := time.Now(); len(lines) == 0 && time.Since(began) < hang; { // it is written when all is over
		lines = d.log.requests(t)
	}
	if len(lines) != 1 || lines[0]["level"] != "INFO" || lines[0]["client_left"] != true {
		t.Errorf("that a caller leaves is no fault of ours: %v", lines)
	}
	if sent := last[api.OutcomesRequest](d, hop.ReportOutcomes.Path); len(sent.Outcomes) != 1 || sent.Outcomes[0].Kind != api.KindRelease || sent.Outcomes[0].JobID != jobID {
		t.Errorf("core got %+v", sent)
	}
}

// An outcome and a heartbeat whose answers are lost are sent again; a submit
// without a key is not.
func TestOutcomesAndHeartbeatsAreRepeated(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	var mu sync.Mutex
	lost := map[string]bool{}
	once := func(path, value string) {
		d.core.Raw(path, func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			first := !lost[path]
			lost[path] = true
			mu.Unlock()
			if first {
				panic(http.ErrAbortHandler)
			}
			_, _ = io.WriteString(w, `{"results":[{"status":200,"value":`+value+`}]}`)
		})
	}
	once(hop.ReportOutcomes.Path, `{"results":[{"index":0,"status":200,"outcome":{"job_id":"`+jobID+`","state":"completed"}}]}`)
	once(hop.Heartbeat.Path, `{"status":"ACTIVE","leases":[]}`)
	once(hop.Leave.Path, `{}`)
	once(hop.SubmitJobs.Path, `{"id":"`+jobID+`"}`)
	key := d.key("work", "submit")
	if got := d.do("POST", "/v1/jobs/"+jobID+"/complete", key, `{"lease_token":"t"}`); got.status != 200 {
		t.Errorf("complete: %d %s", got.status, got.body)
	}
	if got := d.do("POST", "/v1/workers/w/heartbeat", key, `{}`); got.status != 200 {
		t.Errorf("heartbeat: %d %s", got.status, got.body)
	}
	if got := d.do("DELETE", "/v1/workers/w", key, ""); got.status != 204 {
		t.Errorf("goodbye: %d %s", got.status, got.body)
	}
	d.do("POST", "/v1/jobs", key, `{"type":"a"}`).refused(t, 503, problem.OutcomeUnknown)
}

// Core takes its time, and the first in line has waited for longer than anybody
// should: who comes then is refused before his body is asked for. Who can be known
// again by an Idempotency-Key, and who ends work, stands in another line.
func TestALineThatIsTooSlowRefusesBeforeTheBody(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	entered, release := make(chan struct{}, 100), make(chan struct{})
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result {
		entered <- struct{}{}
		<-release
		return coretest.Value(http.StatusAccepted, map[string]string{"id": jobID})
	})
	key := d.key("submit")
	var group sync.WaitGroup
	submit := func(body string, headers ...string) {
		group.Go(func() {
			if got := d.do("POST", "/v1/jobs", key, body, headers...); got.status != 202 {
				t.Errorf("a submit that came in time: %d %s", got.status, got.body)
			}
		})
	}
	const small = `{"type":"a"}`
	large := `{"type":"a","payload":"` + strings.Repeat("x", 30<<10) + `"}`
	submit(small)
	<-entered
	for range 20 { // they fill the next envelope
		submit(large)
	}

	for _, path := range []string{"/v1/jobs", "/v1/jobs/batch"} {
		for begun := time.Now(); !refusedUnread(t, d.url+path, key); {
			if time.Since(begun) > 20*time.Second {
				t.Fatalf("%s: nobody is refused before the body is read", path)
			}
		}
	}
	submit(small, "Idempotency-Key", "another-line")
	<-entered
	close(release)
	group.Wait()
}

// refusedUnread says whether a submit is told to come back before its body is read.
func refusedUnread(t *testing.T, url, key string) bool {
	t.Helper()
	transport := &http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}
	sent := &asksBefore{}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.LimitReader(sent, 1<<14))
	if err != nil {
		t.Fatal(err)
	}
	request.ContentLength = 1 << 14
	request.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}, "Expect": {"100-continue"}}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" && !sent.read.Load()
}

// asksBefore is a body of no JSON that tells whether it was read.
type asksBefore struct{ read atomic.Bool }

func (a *asksBefore) Read(p []byte) (int, error) {
	a.read.Store(true)
	clear(p)
	return len(p), nil
}
