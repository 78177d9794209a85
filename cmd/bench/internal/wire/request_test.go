package wire

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
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
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
	g.Use(NewShape("q1", 200, 1))
	who := Caller{bearer: "fq_key"}
	var scratch []byte
	request, body := parse(t, g.submit(nil, &scratch, []Caller{who}, Submit{Jobs: 1, At: time.Second, Key: "k-1"}))
	job := decode[api.SubmitRequest](t, body)
	if request.Method+" "+request.URL.Path != "POST /sub/v1/jobs" || request.Header.Get("Authorization") != "Bearer fq_key" ||
		request.Header.Get("Idempotency-Key") != "k-1" || request.Host != "127.0.0.1:8080" {
		t.Errorf("%s %s %v", request.Method, request.URL, request.Header)
	}
	if fields := job.Validate("", time.Now()); len(fields) > 0 || job.Queue != "q1" || len(job.Payload) != 200 {
		t.Errorf("%v, queue %s, %d bytes of payload", fields, job.Queue, len(job.Payload))
	}
	request, body = parse(t, g.submit(nil, &scratch, []Caller{who}, Submit{Jobs: 3, Batch: true}))
	if batch := decode[api.BatchRequest](t, body); len(batch.Jobs) != 3 || request.URL.Path != "/sub/v1/jobs/batch" {
		t.Errorf("%s with %d jobs", request.URL.Path, len(batch.Jobs))
	}
	_, body = parse(t, g.claim(nil, &scratch, &who, Claim{Worker: "w", Queue: "q1", Max: 7, Wait: time.Second}))
	if claim := decode[api.ClaimRequest](t, body); *claim.Max != 7 || *claim.WaitMS != 1000 || claim.Queues[0] != "q1" {
		t.Errorf("%s", body)
	}
	_, body = parse(t, g.complete(nil, &scratch, &who, []Lease{{id: "a", token: "t"}, {id: "b", token: "u"}}))
	if outcomes := decode[api.OutcomesRequest](t, body).Outcomes; len(outcomes) != 2 || outcomes[1].LeaseToken != "u" || outcomes[0].Kind != "complete" {
		t.Errorf("%s", body)
	}
}

func TestRequestsToCore(t *testing.T) {
	t.Parallel()
	secret := []byte(strings.Repeat("s", identity.MinSecretBytes))
	c := &coreEndpoint{base: mustURL(t, "http://127.0.0.1:8081"), secret: secret}
	c.Use(NewShape("q1", 100, 1))
	who := []Caller{tenantCaller("t1"), tenantCaller("t2")}
	var scratch []byte
	verify := func(request *http.Request, body []byte) {
		t.Helper()
		verifier := identity.Verifier{Secrets: [][]byte{secret}, Window: time.Minute}
		if err := verifier.Verify(request.Header.Get(identity.Header), request.Method, request.URL.Path, body, time.Now()); err != nil {
			t.Error(err)
		}
	}
	request, body := parse(t, c.submit(nil, &scratch, who, Submit{Jobs: 2, Batch: true, Key: "k", At: time.Second}))
	verify(request, body)
	items := decode[hop.Envelope[hop.SubmitJobsRequest]](t, body).Items
	if len(items) != 2 || items[1].Principal.Tenant != "t2" || len(items[0].Request.Jobs) != 2 || len(items[0].Request.IDs) != 2 ||
		!items[0].Request.Batch || len(items[0].Request.Idempotency.Fingerprint) != 64 ||
		items[0].Request.Idempotency.Key == items[1].Request.Idempotency.Key {
		t.Errorf("%s", body)
	}
	request, body = parse(t, c.claim(nil, &scratch, &who[0], Claim{Worker: "w", Queue: "q1", Max: 1}))
	verify(request, body)
	if items := decode[hop.Envelope[api.ClaimRequest]](t, body).Items; len(items) != 1 || items[0].Request.WorkerID != "w" {
		t.Errorf("%s", body)
	}
	request, body = parse(t, c.complete(nil, &scratch, &who[0], []Lease{{id: "a", token: "t"}}))
	verify(request, body)
	if items := decode[hop.Envelope[api.OutcomesRequest]](t, body).Items; len(items[0].Request.Outcomes) != 1 {
		t.Errorf("%s", body)
	}
}

// Jobs of keys have each one of so many.
func TestJobsOfKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, job := range decode[[]api.SubmitRequest](t, NewShape("q1", 50, 1).WithKeys(3).appendJobs(nil, 0, 100)) {
		seen[*job.Key] = true
	}
	if len(seen) != 3 || !seen["k0"] || !seen["k2"] {
		t.Errorf("keys %v", seen)
	}
}
