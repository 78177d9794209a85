package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"mail.send","payload":{"to":"x"}}`)
	request := d.submitted()
	id, err := uuid.Parse(request.IDs[0])
	if err != nil || id.Version() != 7 || len(request.Jobs) != 1 || request.Batch || request.Idempotency != nil {
		t.Errorf("core got %+v", request)
	}
	if got.status != 202 || got.header.Get("Location") != "/v1/jobs/"+request.IDs[0] || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, headers %v", got.status, got.header)
	}
	principal := d.core.Requests(hop.SubmitJobs.Path)[0].Items[0].Principal
	if principal.Kind != "tenant" || principal.Tenant != tenantID || principal.KeyID == "" {
		t.Errorf("principal %+v", principal)
	}
}

// A replay is the first answer to the byte, with the first job's place.
func TestReplay(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	stored := json.RawMessage(`{"id":"` + jobID + `","payload_note":"<&>","n":1.0}`)
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result {
		result := coretest.Value(202, stored)
		result.Replayed = true
		return result
	})
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a"}`, "Idempotency-Key", "k1")
	if got.status != 202 || string(got.body) != string(stored) || got.header.Get("Idempotent-Replayed") != "true" || got.header.Get("Location") != "/v1/jobs/"+jobID {
		t.Errorf("status %d %s, headers %v", got.status, got.body, got.header)
	}
	if key := d.submitted().Idempotency; key == nil || key.Key != "k1" || key.Operation != "submit" || len(key.Fingerprint) != 64 {
		t.Errorf("core got %+v", key)
	}
}

func TestDedupeHitHasNoLocation(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result {
		return coretest.Value(200, map[string]any{"id": jobID, "deduplicated": true})
	})
	got := d.do("POST", "/v1/jobs", d.key("submit"), `{"type":"a","dedupe_key":"k"}`)
	if got.status != 200 || got.header.Get("Location") != "" || got.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("status %d, headers %v", got.status, got.header)
	}
}

func TestFingerprintIsOfTheMeaning(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	fingerprints := map[string]bool{}
	for _, body := range []string{
		`{"type":"a","payload":{"x":1,"y":[1.50]}}`, `{ "payload":{"y":[15e-1],"x":1.0}, "type":"\u0061" }`,
	} {
		d.do("POST", "/v1/jobs", key, body, "Idempotency-Key", `"k"`)
		fingerprints[d.submitted().Idempotency.Fingerprint] = true
	}
	if len(fingerprints) != 1 {
		t.Errorf("two spellings have %d fingerprints", len(fingerprints))
	}
}

func TestIdempotencyHeader(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.key("submit")
	for _, path := range []string{"/v1/jobs", "/v1/jobs/batch"} {
		for _, values := range [][]string{{""}, {`""`}, {"a b"}, {`"a`}, {"a", "b"}, {strings.Repeat("x", 256)}, {`"` + strings.Repeat("x", 256) + `"`}, {"é"}, {`a"b`}, {`"a"b"`}, {`"a\b"`}, {`"a";x=1`}, {"a", "a"}, {"", "a"}} {
			var headers []string
			for _, value := range values {
				headers = append(headers, "Idempotency-Key", value)
			}
			d.do("POST", path, key, `{}`, headers...).refused(t, 400, problem.IdempotencyKeyInvalid)
		}
	}
	for given, want := range map[string]string{
		strings.Repeat("x", 255): strings.Repeat("x", 255), `"` + strings.Repeat("x", 255) + `"`: strings.Repeat("x", 255),
		"k": "k", `"k"`: "k", `"a\"b"`: `a"b`, "it's": "it's",
	} {
		if got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`, "Idempotency-Key", given); got.status != 202 || d.submitted().Idempotency.Key != want {
			t.Errorf("%.40q: %d, key %.40q", given, got.status, d.submitted().Idempotency.Key)
		}
	}
}

func TestRefusalsOfCoreArePassedOn(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit")
	for _, code := range []problem.Code{problem.IdempotencyMismatch, problem.QueueFull, problem.ActiveCapReached, problem.TooManyLanes, problem.Overloaded, problem.OutcomeUnknown} {
		d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result {
			result := coretest.Refuse(code, "core says so")
			ms := int64(1500)
			result.Problem.RetryAfterMS, result.Problem.Instance, result.Problem.RequestID = &ms, "/internal/v1/submit-jobs", "core's"
			result.Problem.Errors, result.Problem.Policies = nil, nil
			return result
		})
		got := d.do("POST", "/v1/jobs", key, `{"type":"a"}`)
		p := got.refused(t, problem.New(code, "").Status, code)
		if p.Instance != "/v1/jobs" || p.Detail != "core says so" || got.header.Get("Retry-After") != "2" || p.Errors == nil || p.Policies == nil {
			t.Errorf("%s: %s, Retry-After %s", code, got.body, got.header.Get("Retry-After"))
		}
	}
}

func TestUserBoundKey(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	d.accept()
	key := d.keyWith(func(k *hop.KeyRecord) { k.Scopes, k.User = []string{"submit"}, "bob" })
	for _, body := range []string{`{"type":"a"}`, `{"type":"a","user":null}`, `{"type":"a","user":"bob"}`} {
		if got := d.do("POST", "/v1/jobs", key, body); got.status != 202 {
			t.Fatalf("%s: status %d %s", body, got.status, got.body)
		}
		if user := d.submitted().Jobs[0].User; user == nil || *user != "bob" {
			t.Errorf("%s: the job is for %v", body, user)
		}
	}
	d.do("POST", "/v1/jobs", key, `{"type":"a","user":"eve"}`).refused(t, 403, problem.Forbidden)
	got := d.do("POST", "/v1/jobs/batch", key, `{"jobs":[{"type":"a"},{"type":"a","user":"eve"}],"atomic":true}`)
	if p := got.refused(t, 403, problem.Forbidden); p.Errors[0].Field != "jobs[1].user" {
		t.Errorf("errors %v", p.Errors)
	}
}

func TestGetJob(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("read")
	d.core.On(hop.GetJob.Path, func(item coretest.Item) coretest.Result {
		var request hop.ID
		_ = json.Unmarshal(item.Request, &request)
		if request.ID != jobID {
			return coretest.Refuse(problem.NotFound, "core has its own words")
		}
		return coretest.Value(200, api.Job{JobSummary: api.JobSummary{ID: jobID}, Payload: json.RawMessage(`{"a":"<&>\u2028","n":1.0}`)})
	})
	for _, id := range []string{jobID, strings.ToUpper(jobID)} {
		got := d.do("GET", "/v1/jobs/"+id, key, "")
		if got.status != 200 || !strings.Contains(string(got.body), `"payload":{"a":"<&>\u2028","n":1.0},"result":null,"checkpoint":null,"last_error":null`) {
			t.Errorf("status %d %s", got.status, got.body)
		}
	}
	unknown := uuid.NewString()
	want := ""
	for _, id := range []string{unknown, "1", "batch", "%00", "%zz%zz", "{" + jobID + "}", "urn:uuid:" + jobID, strings.ReplaceAll(jobID, "-", ""), jobID + "%20", "..", "'or'1'='1"} {
		if strings.Contains(id, "%zz") {
			continue // net/http itself refuses it
		}
		got := d.do("GET", "/v1/jobs/"+id, key, "")
		p := got.refused(t, 404, problem.NotFound)
		body := strings.NewReplacer(p.RequestID, "ID", p.Instance, "PATH").Replace(string(got.body))
		if want == "" {
			want = body
		}
		if body != want {
			t.Errorf("%s: %s\nunknown: %s", id, body, want)
		}
	}
	if n := len(d.core.Requests(hop.GetJob.Path)); n != 3 {
		t.Errorf("core was asked %d times, want 3: malformed ids are no question", n)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	stored := json.RawMessage(`{"results":[],"accepted":1,"rejected":2}`)
	d.core.On(hop.SubmitJobs.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, stored) })
	key := d.key("submit")
	huge := strings.Repeat("x", api.MaxPayload)
	got := d.do("POST", "/v1/jobs/batch", key, `{"jobs":[{"type":"a"},{"type":"a","priority":10},{"type":"a","payload":"`+huge+`"}]}`, "Idempotency-Key", "k")
	if got.status != 200 || string(got.body) != string(stored) {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	request := d.submitted()
	if !request.Batch || request.Atomic || len(request.IDs) != 3 || len(request.Jobs) != 3 || len(request.Problems) != 3 || request.Idempotency.Operation != "submit_batch" {
		t.Fatalf("core got %+v", request)
	}
	if request.Problems[0] != nil || request.Jobs[0].Type != "a" {
		t.Errorf("the good job: %+v, %+v", request.Problems[0], request.Jobs[0])
	}
	bad, large := request.Problems[1], request.Problems[2]
	if bad.Code != problem.InvalidRequest || bad.Errors[0].Field != "jobs[1].priority" || bad.Instance != "/v1/jobs/batch" || bad.RequestID == "" {
		t.Errorf("the second job's problem: %+v", bad)
	}
	if large.Code != problem.PayloadTooLarge || large.Status != 413 || len(request.Jobs[2].Payload) != 0 {
		t.Errorf("the third job's problem: %+v", large)
	}
}

func TestBatchRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("submit")
	for body, field := range map[string]string{
		`{"jobs":[]}`:   "jobs",
		`{}`:            "jobs",
		`{"jobs":null}`: "jobs",
		`{"jobs":[` + strings.Repeat(`{"type":"a"},`, 1000) + `{"type":"a"}]}`:  "jobs",
		`{"jobs":[{"type":"a"},{"type":"a"},{"type":"a"},{"priority":"high"}]}`: "jobs[3].priority",
		`{"jobs":[{"type":"a"},{"type":"a b"},{}],"atomic":true}`:               "jobs[1].type",
	} {
		p := d.do("POST", "/v1/jobs/batch", key, body).refused(t, 400, problem.InvalidRequest)
		if len(p.Errors) != 1 || p.Errors[0].Field != field {
			t.Errorf("%.80s: errors %v", body, p.Errors)
		}
	}
	d.do("POST", "/v1/jobs/batch", key, `{"jobs":[{"type":"a","x":1}]}`).refused(t, 400, problem.UnknownField)
	if n := len(d.core.Requests(hop.SubmitJobs.Path)); n != 0 {
		t.Errorf("%d reached core", n)
	}
}

func TestBatchWithEveryJobRefused(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	got := d.do("POST", "/v1/jobs/batch", d.key("submit"), `{"jobs":[{"type":""},null]}`)
	var response api.BatchResponse
	if err := json.Unmarshal(got.body, &response); err != nil || got.status != http.StatusOK {
		t.Fatalf("status %d %s", got.status, got.body)
	}
	if response.Accepted != 0 || response.Rejected != 2 || len(response.Results) != 2 {
		t.Fatalf("%s", got.body)
	}
	for i, result := range response.Results {
		if result.Index != i || result.Status != 400 || result.Job != nil || result.Problem.Errors[0].Field != fmt.Sprintf("jobs[%d].type", i) {
			t.Errorf("result %d: %+v", i, result)
		}
	}
}

func TestDeleteJob(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	key := d.key("manage")
	d.core.On(hop.DeleteJob.Path, func(coretest.Item) coretest.Result { return coretest.Value(200, struct{}{}) })
	if got := d.do("DELETE", "/v1/jobs/"+jobID, key, ""); got.status != 204 || len(got.body) != 0 || last[hop.ID](d, hop.DeleteJob.Path).ID != jobID {
		t.Errorf("%d %s", got.status, got.body)
	}
	d.do("DELETE", "/v1/jobs/x", key, "").refused(t, 404, problem.NotFound)
	d.core.On(hop.DeleteJob.Path, func(coretest.Item) coretest.Result { return coretest.Refuse(problem.JobLive, "It runs.") })
	d.do("DELETE", "/v1/jobs/"+jobID, key, "").refused(t, 409, problem.JobLive)
}
