// Package calltest sends the signed calls of a gateway to a core on a database of its own, for the tests of package httpapi and
// of the operations behind it.
package calltest

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
	"github.com/forgequeue/forgequeue/core/internal/administration"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/hints"
	"github.com/forgequeue/forgequeue/core/internal/httpapi"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/operations"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/seats"
)

// The secrets of the hop.
const (
	Secret   = "the-current-secret-of-32-bytes-or-more"
	Previous = "the-previous-secret-of-32-bytes-or-more"
)

// Core is a core's internal API over a database of its own, and one tenant.
type Core struct {
	*testing.T
	URL   string
	Store *cell.Cell
	// Memory is what runs in memory: nothing polls there or refreshes but what a test asks for.
	Memory  *enginetest.Core
	Server  *httpapi.Server
	Handler http.Handler
	HTTP    *httptest.Server
	Client  *http.Client
	// Behind is a connection to the database.
	Behind   *pgx.Conn
	Draining atomic.Bool
	Tenant   hop.Principal
	// Logger is what the core logs with, into Logged.
	Logger *slog.Logger
	Logged Log
}

// Log is what a core has logged.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write adds to it.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Has says whether a text is in it.
func (l *Log) Has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// New makes a core, whose log and stores end with the test.
func New(t *testing.T) *Core {
	t.Helper()
	f := &Core{T: t, URL: celltest.URL(t)}
	f.Store = celltest.OpenURL(t, f.URL)
	f.Behind = celltest.Connect(t, f.URL)
	f.Logger = slog.New(slog.NewTextHandler(&f.Logged, nil))
	registry := prometheus.NewRegistry()
	f.Memory = enginetest.NewCore(engine.Options{Store: f.Store, Metrics: metrics.NewJobs(registry), Logger: f.Logger})
	notifier, processors := hints.New(f.Store.Identity, nil, f.Logger), seats.Processors()
	f.Server = &httpapi.Server{
		Operations: operations.New(operations.Options{
			Store: f.Store, Engine: f.Memory.Engine, Hints: notifier, Logger: f.Logger, Pages: seals(t), Processors: processors, Draining: f.Draining.Load,
			Targets: operations.Targets{Seals: seals(t), Brokers: broker.Protocols{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()}},
		}),
		Administration: &administration.Administration{Store: f.Store, Engine: f.Memory.Engine, Hints: notifier, Logger: f.Logger, Pages: seals(t), Draining: f.Draining.Load},
		Verifier:       Verifier(), Logger: f.Logger, Bodies: httpapi.NewBodies(1 << 30), Processors: processors, Draining: f.Draining.Load,
	}
	f.Handler = f.Server.Handler(registry)
	f.HTTP = httptest.NewServer(f.Handler)
	t.Cleanup(f.HTTP.Close)
	f.Client = f.HTTP.Client()
	f.Tenant = f.NewTenant()
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

// NewTenant makes a tenant.
func (f *Core) NewTenant() hop.Principal {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.Store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: id.String()}
}

// Verifier accepts what Secret and Previous sign.
func Verifier() identity.Verifier {
	return identity.Verifier{
		Secrets: [][]byte{[]byte(Secret), []byte(Previous)}, Window: hop.AssertionWindow * time.Second,
		Seen: identity.NewSeen(time.Now().Add(-hop.AssertionWindow * time.Second)),
	}
}

// UserOf binds a tenant's principal to a user.
func UserOf(p hop.Principal, user string) hop.Principal {
	p.User = user
	return p
}

// Operator is the principal of the operator key.
func Operator() hop.Principal { return hop.Principal{Kind: hop.PrincipalOperator} }

// Platform is the principal of a platform key.
func Platform() hop.Principal { return hop.Principal{Kind: hop.PrincipalPlatform} }

// Item is a request of a principal.
func Item[Req any](p hop.Principal, request Req) hop.Item[Req] {
	return hop.Item[Req]{Principal: p, Request: request}
}

// Envelope is the body of a call.
func Envelope[Req any](items ...hop.Item[Req]) []byte {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false) // as the gateway does
	if err := encoder.Encode(hop.Envelope[Req]{Items: items}); err != nil {
		panic(err)
	}
	return body.Bytes()
}

// Request makes a request that is signed as a gateway does.
func (f *Core) Request(ctx context.Context, path string, body []byte) *http.Request {
	f.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, f.HTTP.URL+path, bytes.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	r.Header.Set(identity.Header, identity.Sign([]byte(Secret), r.Method, path, body, time.Now()))
	return r
}

// Response is an answer, read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Send sends a request and reads the answer.
func (f *Core) Send(r *http.Request) Response {
	f.Helper()
	answered, err := f.Client.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	defer func() { _ = answered.Body.Close() }()
	body, err := io.ReadAll(answered.Body)
	if err != nil {
		f.Fatal(err)
	}
	return Response{answered.StatusCode, answered.Header, body}
}

// Decode reads JSON.
func Decode[T any](f *Core, body []byte) (value T) {
	f.Helper()
	if err := json.Unmarshal(body, &value); err != nil {
		f.Fatalf("%v: %s", err, body)
	}
	return value
}

// Ask sends items and gives their results.
func Ask[Resp, Req any](f *Core, path string, items ...hop.Item[Req]) []hop.Result[Resp] {
	f.Helper()
	got := f.Send(f.Request(f.Context(), path, Envelope(items...)))
	if got.Status != http.StatusOK || got.Header.Get("Content-Type") != "application/json" {
		f.Fatalf("%s: %d %s", path, got.Status, got.Body)
	}
	results := Decode[hop.Results[Resp]](f, got.Body).Results
	if len(results) != len(items) {
		f.Fatalf("%s: %d results for %d items", path, len(results), len(items))
	}
	return results
}

// One sends one item that must succeed.
func One[Resp, Req any](f *Core, path string, p hop.Principal, request Req) Resp {
	f.Helper()
	result := Ask[Resp](f, path, Item(p, request))[0]
	if result.Problem != nil || result.Value == nil {
		f.Fatalf("%s: %d %v", path, result.Status, result.Problem)
	}
	return *result.Value
}

// Job is a submit of one job.
func Job(change ...func(*api.SubmitRequest)) hop.SubmitJobsRequest {
	request := api.SubmitRequest{Type: "test", Payload: json.RawMessage(`{"a":"<&>"}`)}
	for _, c := range change {
		c(&request)
	}
	return hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{request}}
}

// Submit stores one job of the core's tenant and gives its id.
func (f *Core) Submit() string {
	f.Helper()
	return Decode[api.SubmitResponse](f, One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, Job())).ID
}

// ClaimOf is a claim of the worker w1 that waits.
func ClaimOf(wait time.Duration) api.ClaimRequest {
	return api.ClaimRequest{WorkerID: "w1", Queues: []string{api.DefaultQueue}, WaitMS: new(wait.Milliseconds())}
}

// Claim leases one job.
func (f *Core) Claim() api.ClaimedJob {
	f.Helper()
	jobs := One[api.ClaimResponse](f, hop.ClaimJobs.Path, f.Tenant, ClaimOf(0)).Jobs
	if len(jobs) != 1 {
		f.Fatalf("claimed %d, want 1", len(jobs))
	}
	return jobs[0]
}

// Get reads a job of the tenant.
func (f *Core) Get(id string) api.Job {
	f.Helper()
	return One[api.Job](f, hop.GetJob.Path, f.Tenant, hop.ID{ID: id})
}

// Untouched waits until a job stands as if nobody had claimed it.
func (f *Core) Untouched(id string) {
	f.Helper()
	celltest.Eventually(f, "the job to be back, attempt included", func() bool {
		got := f.Get(id)
		return got.State == api.StateQueued && got.Attempt == 0
	})
}

// Outcome reports one outcome.
func (f *Core) Outcome(p hop.Principal, o api.OutcomeRequest) api.OutcomeResult {
	f.Helper()
	return One[api.OutcomesResponse](f, hop.ReportOutcomes.Path, p, api.OutcomesRequest{Outcomes: []api.OutcomeRequest{o}}).Results[0]
}

// Exec runs a statement behind the core.
func (f *Core) Exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.Behind.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// DropDatabase takes the database away.
func (f *Core) DropDatabase() {
	f.Helper()
	name := f.Behind.Config().Database
	admin := celltest.Connect(f, strings.Replace(f.URL, "/"+name, "/postgres", 1))
	if _, err := admin.Exec(f.Context(), `DROP DATABASE `+name+` WITH (FORCE)`); err != nil {
		f.Fatal(err)
	}
}

// Bury makes a dead letter of a user, or of none.
func (f *Core) Bury(user string) string {
	f.Helper()
	id := Decode[api.SubmitResponse](f, One[json.RawMessage](f, hop.SubmitJobs.Path, f.Tenant, Job(func(s *api.SubmitRequest) {
		if user != "" {
			s.User = &user
		}
	}))).ID
	claimed := f.Claim()
	f.Outcome(f.Tenant, api.OutcomeRequest{JobID: claimed.ID, Kind: api.KindFail, LeaseToken: claimed.LeaseToken, Permanent: true, Error: &api.JobError{Type: "T", Message: "m"}})
	return id
}

// Statuses are the codes of results, "" for a success.
func Statuses[T any](results []hop.Result[T]) (codes []string) {
	for _, r := range results {
		switch {
		case r.Problem != nil && r.Problem.Status == r.Status:
			codes = append(codes, string(r.Problem.Code))
		case r.Value != nil && r.Status >= 200 && r.Status < 300:
			codes = append(codes, "")
		default:
			codes = append(codes, "neither a value nor a problem")
		}
	}
	return codes
}

// Refusal asks one item, and gives its problem.
func Refusal[Req any](f *Core, path string, p hop.Principal, request Req) problem.Problem {
	f.Helper()
	got := Ask[json.RawMessage](f, path, Item(p, request))[0]
	if got.Problem == nil {
		f.Fatalf("%s was accepted: %s", path, *got.Value)
	}
	return *got.Problem
}

// Parked counts the claims that have come of workers whose ids begin with parked.
func (f *Core) Parked() int {
	f.Helper()
	var n int
	if err := f.Behind.QueryRow(f.Context(), `SELECT count(*) FROM workers WHERE worker_id LIKE 'parked%'`).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}
