package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/gateway/internal/httpapi"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

func TestMain(m *testing.M) { coretest.Main(m) }

const (
	keySecret   = "the key secret of tests, 32 bytes or more"
	operatorKey = "the-operator-key-of-these-tests"
	tenantID    = "0190a000-0000-7000-8000-00000000000a"
	jobID       = "0190a000-0000-7000-8000-0000000000b1"
)

// door is a gateway's API in front of a fake core.
type door struct {
	t            *testing.T
	url          string
	core         *coretest.Core
	auth         *auth.Authenticator
	hop          *coreclient.Client
	typesChecker *jobtype.Checker
	server       *httpapi.Server
	registry     *prometheus.Registry
	log          *lines
	client       *http.Client
}

// newDoor opens one; change may change its options.
func newDoor(t *testing.T, change ...func(*httpapi.Options)) *door {
	t.Helper()
	return newDoorWith(t, cellclient.Limits{}, change...)
}

// newDoorWith has limits of the hop.
func newDoorWith(t *testing.T, limits cellclient.Limits, change ...func(*httpapi.Options)) *door {
	t.Helper()
	core := coretest.New(t)
	log := &lines{}
	logger := slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, err := coreclient.New(coreclient.Options{URL: core.URL, Secret: []byte(coretest.Secret), Logger: logger, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	redis, err := admission.Connect("")
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	options := httpapi.Options{
		Auth:      auth.New(auth.Options{KeySecret: []byte(keySecret), OperatorKey: operatorKey, Lookup: client.LookUpKey}),
		Core:      client,
		Types:     jobtype.NewChecker(jobtype.Options{Set: client.ReadTypes, Schema: client.ReadSchema}),
		Redis:     redis,
		Limiter:   admission.NewLimiter(redis, admission.LimiterOptions{}),
		Bodies:    request.NewBudget(1 << 30),
		KeySecret: []byte(keySecret),
		KeyEnv:    "test",
		Admin:     true,
		Registry:  registry,
		Logger:    logger,
		Timeout:   10 * time.Second,
	}
	for _, c := range change {
		c(&options)
	}
	server := httpapi.New(options)
	public := httptest.NewServer(server.Handler())
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		public.Close()
		client.Close()
	})
	return &door{t, public.URL, core, options.Auth, client, options.Types, server, registry, log, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// key makes a tenant key with these scopes that core knows.
func (d *door) key(scopes ...string) string {
	return d.keyWith(func(k *hop.KeyRecord) { k.Scopes = scopes })
}

func (d *door) keyWith(change func(*hop.KeyRecord)) string {
	key := auth.Mint("test", []byte(keySecret))
	known := hop.KeyRecord{KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC([]byte(keySecret)), Tenant: tenantID}
	change(&known)
	d.core.AddKey(known)
	return key.Text()
}

func (d *door) platformKey() string {
	return d.keyWith(func(k *hop.KeyRecord) {
		k.Kind, k.Tenant, k.Scopes = hop.PrincipalPlatform, "", []string{api.ScopeWork}
	})
}

// answer is a response read whole.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// signalToken is the token of a link that sends a signal of jobID, made with a new key.
func (d *door) signalToken() string {
	var id string
	d.keyWith(func(k *hop.KeyRecord) { id, k.Scopes = k.KeyID, []string{api.ScopeSubmit} })
	return d.auth.SignalToken(auth.SignalLink{KeyID: id, Job: jobID, Name: "approved", Title: "Approve?", Expires: time.Now().Add(time.Hour).UnixMilli()})
}

// do sends a request with a JSON body, if there is one. headers are name, value. For {token} in the path there is a link's token.
func (d *door) do(method, path, key, body string, headers ...string) answer {
	d.t.Helper()
	if strings.Contains(path, "{token}") {
		path = strings.ReplaceAll(path, "{token}", d.signalToken())
	}
	request, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header[headers[i]] = append(request.Header[headers[i]], headers[i+1])
	}
	return d.send(request)
}

func (d *door) send(request *http.Request) answer {
	d.t.Helper()
	response, err := d.client.Do(request)
	if err != nil {
		d.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, text}
}

// problem reads a problem and checks that it has every field, and what every
// problem has.
func (a answer) problem(t *testing.T) problem.Problem {
	t.Helper()
	var document map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &document); err != nil {
		t.Fatalf("status %d, not a problem: %.200q", a.status, a.body)
	}
	for _, field := range []string{"type", "title", "status", "detail", "instance", "code", "request_id", "retry_after_ms", "errors", "policies"} {
		if _, ok := document[field]; !ok {
			t.Errorf("the problem has no %s: %s", field, a.body)
		}
	}
	var p problem.Problem
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatal(err)
	}
	if got := a.header.Get("Content-Type"); got != problem.ContentType {
		t.Errorf("content type %q", got)
	}
	if p.Status != a.status || p.Type != "/problems/"+string(p.Code) || p.Title == "" || p.Detail == "" || p.Instance == "" || !problem.Known(p.Code) {
		t.Errorf("the problem is not whole: %s", a.body)
	}
	if p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("request_id %q, header %q", p.RequestID, a.header.Get("X-Request-Id"))
	}
	if p.Status == http.StatusServiceUnavailable && a.header.Get("Retry-After") == "" {
		t.Error("503 without Retry-After")
	}
	return p
}

// refused checks the status and code of a problem.
func (a answer) refused(t *testing.T, status int, code problem.Code) problem.Problem {
	t.Helper()
	p := a.problem(t)
	if a.status != status || p.Code != code {
		t.Errorf("status %d %s, want %d %s: %s", a.status, p.Code, status, code, a.body)
	}
	return p
}

// lines collects log lines.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// requests gives the canonical lines.
func (l *lines) requests(t *testing.T) []map[string]any {
	t.Helper()
	var all []map[string]any
	for text := range strings.Lines(l.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatal(err)
		}
		if line["msg"] == "request" {
			all = append(all, line)
		}
	}
	return all
}

// accept makes core take submits: 202 with the job's id.
func (d *door) accept() {
	d.core.On(hop.SubmitJobs.Path, func(item coretest.Item) coretest.Result {
		var request hop.SubmitJobsRequest
		if err := json.Unmarshal(item.Request, &request); err != nil {
			d.t.Errorf("core got %s: %v", item.Request, err)
		}
		return coretest.Value(http.StatusAccepted, map[string]any{"id": request.IDs[0], "state": "queued"})
	})
}

// submitted is what core got by the last submit.
func (d *door) submitted() hop.SubmitJobsRequest {
	d.t.Helper()
	requests := d.core.Requests(hop.SubmitJobs.Path)
	if len(requests) == 0 {
		d.t.Fatal("nothing reached core")
	}
	var request hop.SubmitJobsRequest
	if err := json.Unmarshal(requests[len(requests)-1].Items[0].Request, &request); err != nil {
		d.t.Fatal(err)
	}
	return request
}
