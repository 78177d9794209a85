package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
)

const (
	secret   = "the-current-secret-of-32-bytes-or-more"
	previous = "the-previous-secret-of-32-bytes-or-more"
)

// fixture is a core's internal API over a database of its own, and one tenant.
type fixture struct {
	*testing.T
	url      string
	store    *cell.Cell
	d        *enginetest.Core
	core     *httpapi.Server
	handler  http.Handler
	server   *httptest.Server
	client   *http.Client
	behind   *pgx.Conn
	draining atomic.Bool
	log      logged
	tenant   hop.Principal
	// logger is what the server logs with, into log.
	logger *slog.Logger
}

// logged is the log so far.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, url: celltest.URL(t)}
	f.store = celltest.OpenURL(t, f.url)
	f.behind = celltest.Connect(t, f.url)
	f.logger = slog.New(slog.NewTextHandler(&f.log, nil))
	registry := prometheus.NewRegistry()
	f.d = enginetest.NewCore(engine.Options{Store: f.store, Metrics: metrics.NewJobs(registry), Logger: f.logger})
	server := &httpapi.Server{
		Store: f.store, Engine: f.d.Engine, Hints: hints.New(f.store.Identity, nil, f.logger), Logger: f.logger, Draining: f.draining.Load,
		Verifier: verifier(), Brokers: broker.Protocols{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()}, Seals: seals(t), Bodies: httpapi.NewBodies(1 << 30), Pages: seals(t),
	}
	f.core, f.handler = server, server.Handler(registry)
	f.server = httptest.NewServer(f.handler)
	t.Cleanup(f.server.Close)
	f.client = f.server.Client()
	f.tenant = f.newTenant()
	return f
}

func seals(t *testing.T) *seal.Keys {
	t.Helper()
	keys, err := seal.New(strings.Repeat("k", 32))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func (f *fixture) newTenant() hop.Principal {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: id.String()}
}

func verifier() identity.Verifier {
	return identity.Verifier{
		Secrets: [][]byte{[]byte(secret), []byte(previous)}, Window: hop.AssertionWindow * time.Second,
		Seen: identity.NewSeen(time.Now().Add(-hop.AssertionWindow * time.Second)),
	}
}

// userOf binds a tenant's principal to a user.
func userOf(p hop.Principal, user string) hop.Principal {
	p.User = user
	return p
}

func operator() hop.Principal { return hop.Principal{Kind: hop.PrincipalOperator} }

func platform() hop.Principal { return hop.Principal{Kind: hop.PrincipalPlatform} }

func item[Req any](p hop.Principal, request Req) hop.Item[Req] {
	return hop.Item[Req]{Principal: p, Request: request}
}

func envelope[Req any](items ...hop.Item[Req]) []byte {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // as the gateway does
	if err := encoder.Encode(hop.Envelope[Req]{Items: items}); err != nil {
		panic(err)
	}
	return body.Bytes()
}

// request makes a request that is signed as a gateway does.
func (f *fixture) request(ctx context.Context, path string, body []byte) *http.Request {
	f.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.server.URL+path, bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set(identity.Header, identity.Sign([]byte(secret), r.Method, path, body, time.Now()))
	return r
}

// response is an answer, read to its end.
type response struct {
	status int
	header http.Header
	body   []byte
}

func (f *fixture) send(r *http.Request) response {
	f.Helper()
	answered, err := f.client.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = answered.Body.Close() }()
	body, err := io.ReadAll(answered.Body)
	if err != nil {
		f.Fatal(err)
	}
	return response{answered.StatusCode, answered.Header, body}
}

func decode[T any](f *fixture, body []byte) (value T) {
	f.Helper()
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatalf("%v: %s", err, body)
	}
	return value
}

// ask sends items and gives their results.
func ask[Resp, Req any](f *fixture, path string, items ...hop.Item[Req]) []hop.Result[Resp] {
	f.Helper()
	got := f.send(f.request(f.Context(), path, envelope(items...)))
	if got.status != http.StatusOK || got.header.Get("Content-Type") != "application/json" {
		f.Fatalf("%s: %d %s", path, got.status, got.body)
	}
	results := decode[hop.Results[Resp]](f, got.body).Results
	if len(results) != len(items) {
		f.Fatalf("%s: %d results for %d items", path, len(results), len(items))
	}
	return results
}

// one sends one item that must succeed.
func one[Resp, Req any](f *fixture, path string, p hop.Principal, request Req) Resp {
	f.Helper()
	result := ask[Resp](f, path, item(p, request))[0]
	if result.Problem != nil || result.Value == nil {
		f.Fatalf("%s: %d %v", path, result.Status, result.Problem)
	}
	return *result.Value
}

func job(change ...func(*api.SubmitRequest)) hop.SubmitJobsRequest {
	request := api.SubmitRequest{Type: "test", Payload: json.RawMessage(`{"a":"<&>"}`)}
	for _, c := range change {
		c(&request)
	}
	return hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{request}}
}

// submit stores one job of the fixture's tenant and gives its id.
func (f *fixture) submit() string {
	f.Helper()
	return decode[api.SubmitResponse](f, one[json.RawMessage](f, hop.SubmitJobs.Path, f.tenant, job())).ID
}

func claimOf(wait time.Duration) api.ClaimRequest {
	return api.ClaimRequest{WorkerID: "w1", Queues: []string{api.DefaultQueue}, WaitMS: new(wait.Milliseconds())}
}

// claim leases one job.
func (f *fixture) claim() api.ClaimedJob {
	f.Helper()
	jobs := one[api.ClaimResponse](f, hop.ClaimJobs.Path, f.tenant, claimOf(0)).Jobs
	if len(jobs) != 1 {
		f.Fatalf("claimed %d, want 1", len(jobs))
	}
	return jobs[0]
}

func (f *fixture) get(id string) api.Job {
	f.Helper()
	return one[api.Job](f, hop.GetJob.Path, f.tenant, hop.ID{ID: id})
}

// untouched waits until a job stands as if nobody had claimed it.
func (f *fixture) untouched(id string) {
	f.Helper()
	celltest.Eventually(f, "the job to be back, attempt included", func() bool {
		got := f.get(id)
		return got.State == api.StateQueued && got.Attempt == 0
	})
}

// outcome reports one outcome.
func (f *fixture) outcome(p hop.Principal, o api.OutcomeRequest) api.OutcomeResult {
	f.Helper()
	return one[api.OutcomesResponse](f, hop.ReportOutcomes.Path, p, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{o}}).Results[0]
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.behind.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// dropDatabase takes the database away.
func (f *fixture) dropDatabase() {
	f.Helper()
	name := f.behind.Config().Database
	admin := celltest.Connect(f, strings.Replace(f.url, "/"+name, "/postgres", 1))
	if _, err := admin.Exec(f.Context(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
		f.Fatal(err)
	}
}
