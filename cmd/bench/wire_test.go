package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/identity"
	"github.com/forgequeue/forgequeue/shared/problem"
)

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	base, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// parse reads a written request as a server would.
func parse(t *testing.T, written []byte) (*http.Request, []byte) {
	t.Helper()
	reader := bufio.NewReader(bytes.NewReader(written))
	request, err := http.ReadRequest(reader)
	if err != nil {
		t.Fatalf("%v in %q", err, written)
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(reader); len(rest) > 0 {
		t.Fatalf("%d bytes follow the request", len(rest))
	}
	return request, body
}

func decode[T any](t *testing.T, body []byte) T {
	t.Helper()
	var value T
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return value
}

func TestRequestsToTheGateway(t *testing.T) {
	t.Parallel()
	g := &gatewayEndpoint{base: mustURL(t, "http://127.0.0.1:8080/sub")}
	g.use(newShape("q1", 200))
	who := caller{bearer: "fq_key"}
	var scratch []byte
	request, body := parse(t, g.submit(nil, &scratch, []caller{who}, submitAsk{jobs: 1, at: time.Second, key: "k-1"}))
	job := decode[api.SubmitRequest](t, body)
	if request.Method+" "+request.URL.Path != "POST /sub/v1/jobs" || request.Header.Get("Authorization") != "Bearer fq_key" ||
		request.Header.Get("Idempotency-Key") != "k-1" || request.Host != "127.0.0.1:8080" {
		t.Errorf("%s %s %v", request.Method, request.URL, request.Header)
	}
	if fields := job.Validate("", time.Now()); len(fields) > 0 || job.Queue != "q1" || len(job.Payload) != 200 {
		t.Errorf("%v, queue %s, %d bytes of payload", fields, job.Queue, len(job.Payload))
	}
	request, body = parse(t, g.submit(nil, &scratch, []caller{who}, submitAsk{jobs: 3, batch: true}))
	if batch := decode[api.BatchRequest](t, body); len(batch.Jobs) != 3 || request.URL.Path != "/sub/v1/jobs/batch" {
		t.Errorf("%s with %d jobs", request.URL.Path, len(batch.Jobs))
	}
	_, body = parse(t, g.claim(nil, &scratch, &who, claimAsk{worker: "w", queue: "q1", max: 7, wait: time.Second}))
	if claim := decode[api.ClaimRequest](t, body); *claim.Max != 7 || *claim.WaitMS != 1000 || claim.Queues[0] != "q1" {
		t.Errorf("%s", body)
	}
	_, body = parse(t, g.complete(nil, &scratch, &who, []lease{{id: "a", token: "t"}, {id: "b", token: "u"}}))
	if outcomes := decode[api.OutcomesRequest](t, body).Outcomes; len(outcomes) != 2 || outcomes[1].LeaseToken != "u" || outcomes[0].Kind != "complete" {
		t.Errorf("%s", body)
	}
}

func TestRequestsToCore(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("s", identity.MinSecretBytes))
	c := &coreEndpoint{base: mustURL(t, "http://127.0.0.1:8081"), secret: secret}
	c.use(newShape("q1", 100))
	who := []caller{tenantCaller("t1"), tenantCaller("t2")}
	var scratch []byte
	verify := func(request *http.Request, body []byte) {
		t.Helper()
		verifier := identity.Verifier{Secrets: [][]byte{secret}, Window: time.Minute}
		if err := verifier.Verify(request.Header.Get(identity.Header), request.Method, request.URL.Path, body, time.Now()); err != nil {
			t.Error(err)
		}
	}
	request, body := parse(t, c.submit(nil, &scratch, who, submitAsk{jobs: 2, batch: true, key: "k", at: time.Second}))
	verify(request, body)
	items := decode[api.Envelope[api.HopSubmitRequest]](t, body).Items
	if len(items) != 2 || items[1].Principal.Tenant != "t2" || len(items[0].Request.Jobs) != 2 || len(items[0].Request.IDs) != 2 ||
		!items[0].Request.Batch || len(items[0].Request.Idempotency.Fingerprint) != 64 ||
		items[0].Request.Idempotency.Key == items[1].Request.Idempotency.Key {
		t.Errorf("%s", body)
	}
	request, body = parse(t, c.claim(nil, &scratch, &who[0], claimAsk{worker: "w", queue: "q1", max: 1}))
	verify(request, body)
	if items := decode[api.Envelope[api.ClaimRequest]](t, body).Items; len(items) != 1 || items[0].Request.WorkerID != "w" {
		t.Errorf("%s", body)
	}
	request, body = parse(t, c.complete(nil, &scratch, &who[0], []lease{{id: "a", token: "t"}}))
	verify(request, body)
	if items := decode[api.Envelope[api.OutcomesRequest]](t, body).Items; len(items[0].Request.Outcomes) != 1 {
		t.Errorf("%s", body)
	}
}

// What is searched for must be what the API's own types write.
func TestLeasesAreFound(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	at := 1500 * time.Millisecond
	var sent api.SubmitRequest
	if err := json.Unmarshal(newShape("q", 300).appendJob(nil, at), &sent); err != nil {
		t.Fatal(err)
	}
	response := api.ClaimResponse{Jobs: []api.ClaimedJob{
		{ID: "0199f0a4-0000-7000-8000-000000000001", Payload: sent.Payload, LeaseToken: "tok-1", Metadata: map[string]string{"a": "b"}},
		{ID: "0199f0a4-0000-7000-8000-000000000002", Payload: json.RawMessage(`{"of":"somebody else"}`), LeaseToken: "tok_2"},
	}}
	plain, err := json.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	hop, err := json.Marshal(api.Results[api.ClaimResponse]{Results: []api.Result[api.ClaimResponse]{{Status: 200, Value: &response}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range [][]byte{plain, hop} {
		found, err := findLeases(body, begun, nil)
		if err != nil || len(found) != 2 {
			t.Fatalf("%d found, %v", len(found), err)
		}
		if found[0].id != response.Jobs[0].ID || found[0].token != "tok-1" || !found[0].intended.Equal(begun.Add(at)) {
			t.Errorf("%+v", found[0])
		}
		if found[1].token != "tok_2" || !found[1].intended.IsZero() {
			t.Errorf("%+v", found[1])
		}
		for cut := range body { // an answer cut anywhere gives no panic, and no lease that is not there
			for _, one := range must(findLeases(body[:cut], begun, nil)) {
				if one.token != "tok-1" && one.token != "tok_2" {
					t.Fatalf("cut at %d: %+v", cut, one)
				}
			}
		}
	}
}

func must(found []lease, _ error) []lease { return found }

func TestAnswersAreCounted(t *testing.T) {
	t.Parallel()
	write := func(value any) []byte {
		text, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	refused := problem.New(problem.QueueFull, "full")
	batch := api.BatchResponse{Accepted: 12, Rejected: 2, Results: []api.BatchResult{{Status: 429, Problem: refused}, {Status: 429, Problem: refused}}}
	raw := json.RawMessage(write(batch))
	hop := api.Results[json.RawMessage]{Results: []api.Result[json.RawMessage]{{Status: 200, Value: &raw}, {Status: 200, Value: &raw}}}
	single := json.RawMessage(write(api.SubmitResponse{}))
	singles := api.Results[json.RawMessage]{Results: []api.Result[json.RawMessage]{{Status: 202, Value: &single}, {Status: 429, Problem: refused}}}
	for name, test := range map[string]struct {
		answer reply
		batch  bool
		want   int
	}{
		"one":          {reply{status: 202, body: single}, false, 1},
		"batch":        {reply{status: 200, body: write(batch)}, true, 12},
		"core, batch":  {reply{status: 200, body: write(hop)}, true, 24},
		"core, single": {reply{status: 200, body: write(singles)}, false, 1},
		"refused":      {reply{status: 429, body: write(refused)}, false, 0},
	} {
		if got := countSubmitted(test.answer, test.batch); got != test.want {
			t.Errorf("%s: %d, want %d in %s", name, got, test.want, test.answer.body)
		}
	}
	outcomes := api.OutcomesResponse{Results: []api.OutcomeResult{
		{Index: 0, Status: 200, Outcome: &api.Outcome{State: "completed"}}, {Index: 1, Status: 409, Problem: problem.New(problem.LeaseLost, "gone")},
	}}
	if got := countCompleted(write(outcomes)); got != 1 {
		t.Errorf("%d outcomes", got)
	}
	if got := countCompleted(write(api.Results[api.OutcomesResponse]{Results: []api.Result[api.OutcomesResponse]{{Status: 200, Value: &outcomes}}})); got != 1 {
		t.Errorf("%d outcomes at core", got)
	}
	if byCode, example := problems(write(batch)); byCode["queue_full"] != 2 || example != "full" {
		t.Errorf("%v %q", byCode, example)
	}
}
