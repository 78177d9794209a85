package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// hang is a guard against a test that would never end, not a bound on speed.
const hang = time.Minute

// finishing makes core answer outcomes: the token "good" holds the lease.
func (d *door) finishing() {
	d.core.On(hop.ReportOutcomes.Path, func(item coretest.Item) coretest.Result {
		var request api.OutcomesRequest
		_ = json.Unmarshal(item.Request, &request)
		response := api.OutcomesResponse{}
		for i, outcome := range request.Outcomes {
			result := api.OutcomeResult{Index: i, Status: 200, Outcome: &api.Outcome{JobID: outcome.JobID, State: outcome.Kind}}
			if outcome.LeaseToken != "good" {
				result = api.OutcomeResult{Index: i, Status: 409, Problem: problem.New(problem.LeaseLost, "gone")}
			}
			response.Results = append(response.Results, result)
		}
		return coretest.Value(200, response)
	})
}

func TestSingleOutcomes(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.finishing()
	key := d.key("work")
	for verb, test := range map[string]struct{ body, sent string }{
		"complete": {`{"lease_token":"good","result":{"n":1.0}}`, `"kind":"complete","lease_token":"good","result":{"n":1.0}`},
		"fail":     {`{"lease_token":"good","error":{"type":"E","message":"m"},"retry_after_ms":5,"permanent":true}`, `"error":{"type":"E","message":"m","stack":""},"retry_after_ms":5,"permanent":true`},
		"snooze":   {`{"lease_token":"good","delay_ms":0}`, `"kind":"snooze","lease_token":"good","delay_ms":0`},
		"release":  {`{"lease_token":"good"}`, `"kind":"release","lease_token":"good"}`},
	} {
		path := "/v1/jobs/" + jobID + "/" + verb
		got := d.do("POST", path, key, test.body)
		if got.status != 200 || !strings.Contains(string(got.body), `"state":"`+verb+`"`) || !strings.Contains(string(got.body), `"dead_reason":null`) {
			t.Errorf("%s: status %d %s", verb, got.status, got.body)
		}
		all := d.core.Requests(hop.ReportOutcomes.Path)
		if sent := string(all[len(all)-1].Items[0].Request); !strings.Contains(sent, test.sent) {
			t.Errorf("%s: core got %s", verb, sent)
		}
		stale := strings.ReplaceAll(test.body, "good", "stale")
		if p := d.do("POST", path, key, stale).refused(t, 409, problem.LeaseLost); p.Instance != path {
			t.Errorf("%s: instance %s", verb, p.Instance)
		}
		d.do("POST", "/v1/jobs/nonsense/"+verb, key, test.body).refused(t, 404, problem.NotFound)
		d.do("POST", path, key, `{}`).refused(t, 400, problem.InvalidRequest)
	}
	d.do("POST", "/v1/jobs/"+jobID+"/snooze", key, `{"lease_token":"good"}`).refused(t, 400, problem.InvalidRequest)
	d.do("POST", "/v1/jobs/"+jobID+"/release", key, `{"lease_token":"good","delay_ms":1}`).refused(t, 400, problem.UnknownField)
	if got := d.do("POST", "/v1/jobs/"+jobID+"/complete", key, `{"lease_token":"good","result":null}`); got.status != 200 {
		t.Errorf("null result: status %d", got.status)
	}
}

// Jobs that follow are validated as those of a submit, are of the key's user, and need the scope submit.
func TestOutcomesThatSubmit(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.finishing()
	path := "/v1/jobs/" + jobID + "/complete"
	const body = `{"lease_token":"good","submit":[{"type":"next"}]}`
	both := func(change ...func(*hop.KeyRecord)) string {
		return d.limited(api.Limits{}, append(change, func(k *hop.KeyRecord) { k.Scopes = []string{api.ScopeWork, api.ScopeSubmit} })...)
	}
	d.do("POST", path, d.key("work"), body).refused(t, 403, problem.Forbidden)
	for name, test := range map[string]struct{ key, sent string }{
		"a key":          {both(), `"submit":[{"type":"next"}]`},
		"of a user":      {both(boundTo("bob")), `"submit":[{"type":"next","user":"bob"}]`},
		"a platform key": {d.platformKey(), `"submit":[{"type":"next"}]`},
	} {
		if got := d.do("POST", path, test.key, body); got.status != 200 {
			t.Errorf("%s: status %d %s", name, got.status, got.body)
		}
		all := d.core.Requests(hop.ReportOutcomes.Path)
		if sent := string(all[len(all)-1].Items[0].Request); !strings.Contains(sent, test.sent) {
			t.Errorf("%s: core got %s", name, sent)
		}
	}
	d.do("POST", path, both(boundTo("bob")), `{"lease_token":"good","submit":[{"type":"next","user":"eve"}]}`).refused(t, 403, problem.Forbidden)
	for wrong, field := range map[string]string{
		`[{"type":"next"},{"type":"next","priority":10}]`: "submit[1].priority",
		`[{"type":"a b"}]`: "submit[0].type",
		`[` + strings.Repeat(`{"type":"next"},`, api.MaxChained) + `{"type":"next"}]`: "submit",
	} {
		p := d.do("POST", path, both(), `{"lease_token":"good","submit":`+wrong+`}`).refused(t, 400, problem.InvalidRequest)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%s: %+v", field, p.Errors)
		}
	}
	d.do("POST", "/v1/jobs/"+jobID+"/release", both(), body).refused(t, 400, problem.UnknownField)
	got := d.do("POST", "/v1/outcomes", both(), `{"outcomes":[{"job_id":"`+jobID+`","kind":"complete","lease_token":"good","submit":[{"type":"next","max_attempts":0}]},{"job_id":"`+jobID+`","kind":"fail","lease_token":"good","submit":[{"type":"next"}]},{"job_id":"`+jobID+`","kind":"complete","lease_token":"good"}]}`)
	for _, part := range []string{`"field":"outcomes[0].submit[0].max_attempts"`, `"field":"outcomes[1].submit"`, `{"index":2,"status":200`} {
		if !strings.Contains(string(got.body), part) {
			t.Errorf("no %s in %s", part, got.body)
		}
	}
}

// The jobs that follow are charged as those of a submit.
func TestOutcomesThatSubmitAreCharged(t *testing.T) {
	t.Parallel()
	d := newDoor(t, onRedis(t))
	d.finishing()
	key := d.limited(api.Limits{RequestsPerSecond: new(slowly), RequestBurst: new(int64(1000)), JobsPerSecond: new(slowly), JobBurst: new(int64(5))})
	path := "/v1/jobs/" + jobID + "/complete"
	const two = `{"lease_token":"good","submit":[{"type":"next"},{"type":"next"}]}`
	for left := 3; left > 0; left -= 2 {
		got := d.do("POST", path, key, two)
		if limit := got.header.Get("RateLimit"); got.status != 200 || !strings.Contains(limit, fmt.Sprintf(`"tenant-jobs";r=%d;`, left)) {
			t.Errorf("status %d, RateLimit %q", got.status, limit)
		}
	}
	d.do("POST", path, key, two).refused(t, 429, problem.RateLimited)
	if got := d.do("POST", path, key, `{"lease_token":"good"}`); got.status != 200 {
		t.Errorf("without jobs: status %d %s", got.status, got.body)
	}
}

func TestOutcomesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.finishing()
	key := d.key("work")
	one := func(id, kind, token string) string {
		return fmt.Sprintf(`{"job_id":%q,"kind":%q,"lease_token":%q}`, id, kind, token)
	}
	got := d.do("POST", "/v1/outcomes", key, `{"outcomes":[`+strings.Join([]string{
		one("nonsense", "complete", "good"), one(jobID, "complete", "good"), one(jobID, "explode", "good"),
		one(jobID, "complete", "stale"), one(jobID, "release", "good"),
	}, ",")+`]}`)
	var response api.OutcomesResponse
	if err := json.Unmarshal(got.body, &response); err != nil || got.status != 200 {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	want := []problem.Code{problem.NotFound, "", problem.InvalidRequest, problem.LeaseLost, ""}
	for i, result := range response.Results {
		var code problem.Code
		if result.Problem != nil {
			code = result.Problem.Code
			if result.Status != result.Problem.Status || result.Problem.RequestID == "" || result.Problem.Instance != "/v1/outcomes" {
				t.Errorf("result %d: %+v", i, result.Problem)
			}
		}
		if result.Index != i || code != want[i] || (result.Outcome == nil) == (code == "") {
			t.Errorf("result %d: index %d, %q, want %q", i, result.Index, code, want[i])
		}
	}
	if field := response.Results[2].Problem.Errors[0].Field; field != "outcomes[2].kind" {
		t.Errorf("field %s", field)
	}
	if got := d.do("POST", "/v1/outcomes", key, `{}`); got.status != 200 || string(got.body) != `{"results":[]}` {
		t.Errorf("none: %d %s", got.status, got.body)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.Heartbeat.Path, func(item coretest.Item) coretest.Result {
		var request hop.WorkerHeartbeat
		_ = json.Unmarshal(item.Request, &request)
		if request.WorkerID == "unknown" {
			return coretest.Refuse(problem.WorkerUnknown, "core has its own words")
		}
		response := api.HeartbeatResponse{Status: "ACTIVE"}
		for _, lease := range request.Leases {
			response.Leases = append(response.Leases, api.LeaseStatus{JobID: lease.JobID, Status: "ok"})
		}
		return coretest.Value(200, response)
	})
	key := d.key("work")
	other := uuid.NewString()
	got := d.do("POST", "/v1/workers/w1/heartbeat", key, fmt.Sprintf(`{"leases":[{"job_id":%q,"lease_token":"a"},{"job_id":"x","lease_token":"b"},{"job_id":%q,"lease_token":"c"}]}`, jobID, other))
	want := fmt.Sprintf(`{"status":"ACTIVE","leases":[{"job_id":%q,"status":"ok","lease_expires_at":null,"lease_ms":null},{"job_id":"x","status":"lost","lease_expires_at":null,"lease_ms":null},{"job_id":%q,"status":"ok","lease_expires_at":null,"lease_ms":null}]}`, jobID, other)
	if got.status != 200 || string(got.body) != want {
		t.Errorf("status %d %s\nwant %s", got.status, got.body, want)
	}
	for _, body := range []string{"", "{}", `{"leases":null}`, `{"leases":[]}`} {
		if got := d.do("POST", "/v1/workers/w1/heartbeat", key, body); got.status != 200 || string(got.body) != `{"status":"ACTIVE","leases":[]}` {
			t.Errorf("%q: %d %s", body, got.status, got.body)
		}
	}
	// A worker_id may be any printable ASCII.
	for _, id := range []string{"a/b", "a+b c", "100%", "?#&", ".."} {
		d.do("POST", "/v1/workers/"+url.PathEscape(id)+"/heartbeat", key, "")
		all := d.core.Requests(hop.Heartbeat.Path)
		if sent := string(all[len(all)-1].Items[0].Request); !strings.Contains(sent, `"worker_id":"`+id+`"`) {
			t.Errorf("worker %q became %s", id, sent)
		}
	}
	d.do("POST", "/v1/workers/unknown/heartbeat", key, "").refused(t, 404, problem.WorkerUnknown)
	d.do("POST", "/v1/workers/w1/heartbeat", key, `{"leases":[{"job_id":"x"}]}`).refused(t, 400, problem.InvalidRequest)
}

// Reports reach core as they were sent; null is none, and what is too large says which lease.
func TestHeartbeatReports(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.Heartbeat.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.HeartbeatResponse{Status: "ACTIVE", Leases: make([]api.LeaseStatus, 1)})
	})
	key := d.key("work")
	send := func(report string) answer {
		return d.do("POST", "/v1/workers/w1/heartbeat", key, fmt.Sprintf(`{"leases":[{"job_id":%q,"lease_token":"a",%s}]}`, jobID, report))
	}
	largest := `"` + strings.Repeat("x", api.MaxCheckpoint-2) + `"`
	for report, want := range map[string]string{
		`"progress":{"percent":12.5,"message":"ä"},"checkpoint":{"n": 1}`:          `12.5 ä {"n":1}`,
		`"progress":{"percent":null,"message":"` + strings.Repeat("ä", 256) + `"}`: `- ` + strings.Repeat("ä", 256) + ` `,
		`"progress":{"percent":100}`:              `100 - `,
		`"progress":null,"checkpoint":null`:       ` `,
		`"checkpoint":` + largest:                 ` ` + largest,
		`"checkpoint":0,"progress":{"percent":0}`: `0 - 0`,
	} {
		if got := send(report); got.status != 200 {
			t.Errorf("%.80s: %d %s", report, got.status, got.body)
			continue
		}
		lease, got := last[hop.WorkerHeartbeat](d, hop.Heartbeat.Path).Leases[0], ""
		if p := lease.Progress; p != nil {
			percent, message := "-", "-"
			if p.Percent != nil {
				percent = fmt.Sprint(*p.Percent)
			}
			if p.Message != nil {
				message = *p.Message
			}
			got = percent + " " + message
		}
		if got += " " + string(lease.Checkpoint); got != want {
			t.Errorf("%.80s: core got %.80s", report, got)
		}
	}
	for report, field := range map[string]string{
		`"progress":{"percent":101}`:                                    "leases[0].progress.percent",
		`"progress":{"percent":-0.1}`:                                   "leases[0].progress.percent",
		`"progress":{"message":"` + strings.Repeat("ä", 257) + `"}`:     "leases[0].progress.message",
		`"checkpoint":"` + strings.Repeat("x", api.MaxCheckpoint) + `"`: "leases[0].checkpoint",
	} {
		if p := send(report).refused(t, 400, problem.InvalidRequest); len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%.80s: %+v", report, p.Errors)
		}
	}
	for _, report := range []string{`"progress":{"percent":"1"}`, `"progress":7`, `"progress":{"per_cent":1}`, `"checkpoint":{"a":1,"a":2}`, `"checkpoint":`} {
		if got := send(report); got.status != 400 {
			t.Errorf("%s: %d %s", report, got.status, got.body)
		}
	}
}

func TestRegister(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.RegisterWorker.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, api.Worker{WorkerID: "w1", Status: "ACTIVE"})
	})
	for _, key := range []string{d.key("work"), d.platformKey()} {
		got := d.do("POST", "/v1/workers", key, `{"worker_id":"w1","queues":["q"],"concurrency":4}`)
		if got.status != 200 || !strings.Contains(string(got.body), `"status":"ACTIVE"`) {
			t.Errorf("status %d %s", got.status, got.body)
		}
	}
	d.do("POST", "/v1/workers", d.key("work"), `{}`).refused(t, 400, problem.InvalidRequest)
}

func TestAWorkerSaysGoodbye(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.Leave.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, struct{}{}) })
	for kind, key := range map[string]string{"tenant": d.key("work"), "platform": d.platformKey()} {
		for id, path := range map[string]string{"w1": "w1", "a/b": url.PathEscape("a/b"), "..": "%2E%2E", "100%": "100%25"} {
			got := d.do("DELETE", "/v1/workers/"+path, key, "")
			if got.status != 204 || len(got.body) > 0 || got.header.Get("X-Request-Id") == "" {
				t.Errorf("%s: %d %s %v", id, got.status, got.body, got.header)
			}
			all := d.core.Requests(hop.Leave.Path)
			if sent := all[len(all)-1].Items[0]; string(sent.Request) != `{"id":"`+id+`"}` || sent.Principal.Kind != kind {
				t.Errorf("%s: core got %s of %s", id, sent.Request, sent.Principal.Kind)
			}
		}
	}
	before := len(d.core.Requests(hop.Leave.Path))
	d.do("DELETE", "/v1/workers/%C3%A9", d.key("work"), "").refused(t, 400, problem.InvalidRequest)
	d.do("DELETE", "/v1/workers/w1?force=1", d.key("work"), "").refused(t, 400, problem.InvalidRequest)
	d.do("DELETE", "/v1/workers/w1", d.key("read"), "").refused(t, 403, problem.Forbidden)
	if after := len(d.core.Requests(hop.Leave.Path)); after != before {
		t.Errorf("core was asked %d times too often", after-before)
	}
}

func TestClaim(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	const jobs = `{"jobs":[{"id":"x","payload":{"n":1.0,"s":"<&>"}}]}`
	d.core.On(hop.ClaimJobs.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, json.RawMessage(jobs)) })
	got := d.do("POST", "/v1/claims", d.platformKey(), `{"worker_id":"w","queues":["q"],"wait_ms":25000}`)
	if got.status != 200 || string(got.body) != jobs {
		t.Errorf("status %d %s", got.status, got.body)
	}
	request := d.core.Requests(hop.ClaimJobs.Path)[0]
	var left int
	if _, err := fmt.Sscan(request.Header.Get(hop.TimeoutHeader), &left); err != nil || left < 30_000 || left > 35_000 {
		t.Errorf("core may take %d ms, want the wait and the timeout", left)
	}
	if principal := request.Items[0].Principal; principal.Kind != "platform" || principal.Tenant != "" {
		t.Errorf("principal %+v", principal)
	}
	d.do("POST", "/v1/claims", d.key("work"), `{"worker_id":"w","queues":["q"],"wait_ms":25001}`).refused(t, 400, problem.InvalidRequest)
}

// When the caller leaves, so does the hop: core gives the jobs back.
func TestClaimEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	parked, left := make(chan struct{}), make(chan struct{})
	d.core.Raw(hop.ClaimJobs.Path, func(_ http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/claims", strings.NewReader(`{"worker_id":"w","queues":["q"],"wait_ms":25000}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+d.key("work"))
	request.Header.Set("Content-Type", "application/json")
	done := make(chan error, 1)
	go func() {
		response, err := d.client.Do(request)
		if err == nil {
			_ = response.Body.Close()
		}
		done <- err
	}()
	<-parked
	leave()
	if err := <-done; err == nil {
		t.Error("a caller that left got an answer")
	}
	select {
	case <-left:
	case <-time.After(hang):
		t.Fatal("core was never told that the caller had left")
	}
}

func TestTimeoutIsUnknownForAWriteAndUnavailableForARead(t *testing.T) {
	t.Parallel()
	d := newDoor(t, func(o *httpapi.Options) { o.Timeout = 50 * time.Millisecond })
	release := make(chan struct{})
	defer close(release)
	wait := func(http.ResponseWriter, *http.Request) { <-release }
	d.core.Raw(hop.SubmitJobs.Path, wait)
	d.core.Raw(hop.GetJob.Path, wait)
	key := d.key("submit", "read")
	d.do("POST", "/v1/jobs", key, `{"type":"a"}`).refused(t, 503, problem.OutcomeUnknown)
	d.do("GET", "/v1/jobs/"+jobID, key, "").refused(t, 503, problem.CoreUnavailable)
}
