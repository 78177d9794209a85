package push_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/forgequeue/forgequeue/core/brokers/kafka"
	"github.com/forgequeue/forgequeue/core/brokers/nats"
	"github.com/forgequeue/forgequeue/core/brokers/rabbitmq"
	"github.com/forgequeue/forgequeue/core/internal/broker"
	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/engine"
	"github.com/forgequeue/forgequeue/core/internal/engine/enginetest"
	"github.com/forgequeue/forgequeue/core/internal/metrics"
	"github.com/forgequeue/forgequeue/core/internal/outbound"
	"github.com/forgequeue/forgequeue/core/internal/push"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/seal"
	"github.com/forgequeue/forgequeue/core/internal/submits"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// secret is that of every queue here, key what seals it.
var (
	secret = api.PushSecretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", 32)))
	key    = strings.Repeat("k", 32)
)

// fixture is one core that pushes, on a database of its own.
type fixture struct {
	*testing.T
	store    *cell.Cell
	d        *enginetest.Core
	keys     *seal.Keys
	executor *push.Executor
	tenant   tenant.ID
	direct   *pgx.Conn
	registry *prometheus.Registry
	log      lockedBuffer
	// tracer is the executor's, nil for none.
	tracer trace.Tracer
	// stop ends the executor as a drain does, and waits for it.
	stop func()
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := newIdleFixture(t)
	f.start(5 * time.Second)
	return f
}

// newIdleFixture is one whose executor does not run yet.
func newIdleFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, registry: prometheus.NewRegistry()}
	url := celltest.URL(t)
	f.store, f.direct = celltest.OpenURL(t, url), celltest.Connect(t, url)
	keys, err := seal.New(key)
	if err != nil {
		t.Fatal(err)
	}
	f.keys = keys
	f.d = enginetest.NewCore(engine.Options{Store: f.store, Metrics: metrics.NewJobs(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)})
	f.tenant = f.newTenant()
	f.background(func(ctx context.Context) { _ = f.d.Run(ctx) })
	return f
}

// background runs a part of core until the test ends.
func (f *fixture) background(run func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.Context()))
	done := make(chan struct{})
	go func() { defer close(done); run(ctx) }()
	stop = func() { cancel(); <-done }
	f.Cleanup(stop)
	return stop
}

func (f *fixture) start(grace time.Duration) {
	f.Helper()
	guard, err := outbound.ParseGuard("127.0.0.0/8")
	if err != nil {
		f.Fatal(err)
	}
	f.executor = push.New(push.Options{
		Engine: f.d.Engine, Store: f.store, Keys: f.keys, Outbound: outbound.Options{Guard: guard}, Brokers: broker.Protocols{rabbitmq.Protocol(), nats.Protocol(), kafka.Protocol()},
		Metrics: metrics.NewPush(f.registry), Logger: slog.New(slog.NewTextHandler(&f.log, nil)), Grace: grace, InFlight: 64,
		Tracer: f.tracer,
	})
	f.d.Cached.Breakers.Show(f.executor.Breaker, f.executor.Probe)
	f.stop = f.background(func(ctx context.Context) { _ = f.executor.Run(ctx) })
}

func (f *fixture) newTenant() tenant.ID {
	f.Helper()
	id := uuid.Must(uuid.NewV7())
	if _, err := f.store.Tenants.Create(f.Context(), id, api.TenantRequest{Name: "test"}); err != nil {
		f.Fatal(err)
	}
	return id
}

// settings change what a queue in push mode is set to.
type settings func(*api.QueueRequest)

// patient has one that does not open.
func patient(r *api.QueueRequest) {
	r.Push.Breaker = &api.BreakerSettingsRequest{Calls: new(1000)}
}

// put sets a queue of a tenant to push to a URL; jobs are tried again after a second.
func (f *fixture) put(owner tenant.ID, name, url string, changes ...settings) {
	f.Helper()
	request := api.QueueRequest{
		Mode: new(api.ModePush), Push: &api.PushRequest{URL: url, TimeoutMS: new(int64(5000))},
		Retry: &api.RetryRequest{BaseMS: new(int64(1)), Jitter: new(0.0)},
	}
	for _, change := range changes {
		change(&request)
	}
	place := tenant.QueueKey{Tenant: owner, Name: name}.SecretPlace()
	_, taken, err := f.d.PutPushQueue(f.Context(), owner, name, request, queues.NewSecret{Sealed: f.keys.Seal([]byte(secret), place), Replace: true})
	if err != nil || !taken {
		f.Fatalf("the queue is not set: %v, secret taken %v", err, taken)
	}
}

// submit stores n jobs.
func (f *fixture) submit(owner tenant.ID, name string, n int, changes ...func(*api.SubmitRequest)) []uuid.UUID {
	f.Helper()
	calls := make([]submits.Call, n)
	ids := make([]uuid.UUID, n)
	for i := range calls {
		request := api.SubmitRequest{Type: "test", Queue: name, Payload: []byte(`{"n": 1.50}`)}
		for _, change := range changes {
			change(&request)
		}
		ids[i] = uuid.Must(uuid.NewV7())
		calls[i] = submits.Call{
			Tenant: owner, IDs: []uuid.UUID{ids[i]}, Jobs: []api.SubmitRequest{request}, CorrelationID: "corr-1",
			Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		}
	}
	for i, answer := range f.d.Submit(f.Context(), calls) {
		if answer.Err != nil || answer.Problem != nil {
			f.Fatalf("submit %d: %v, %v", i, answer.Err, answer.Problem)
		}
	}
	return ids
}

func (f *fixture) get(owner tenant.ID, id uuid.UUID) api.Job {
	f.Helper()
	job, err := f.store.JobReads.Get(f.Context(), owner, "", id)
	if err != nil {
		f.Fatal(err)
	}
	return job
}

// ends waits until a job is in a state, and gives it.
func (f *fixture) ends(owner tenant.ID, id uuid.UUID, state string) api.Job {
	f.Helper()
	var job api.Job
	celltest.Eventually(f, "the job to be "+state, func() bool {
		job = f.get(owner, id)
		return job.State == state
	})
	return job
}

func (f *fixture) count(sql string, args ...any) int {
	f.Helper()
	var n int
	if err := f.direct.QueryRow(f.Context(), sql, args...).Scan(&n); err != nil {
		f.Fatal(err)
	}
	return n
}

func (f *fixture) exec(sql string, args ...any) {
	f.Helper()
	if _, err := f.direct.Exec(f.Context(), sql, args...); err != nil {
		f.Fatal(err)
	}
}

// promote makes scheduled jobs ready at once.
func (f *fixture) promote() {
	f.Helper()
	f.exec(`UPDATE jobs SET state = 'queued', ready_at = statement_timestamp() WHERE state = 'scheduled'`)
}

func (f *fixture) breaker(owner tenant.ID, name string) *api.Breaker {
	f.Helper()
	shown, err := f.d.Queue(f.Context(), owner, name)
	if err != nil {
		f.Fatal(err)
	}
	return shown.Breaker
}

// received is one call as a destination got it.
type received struct {
	path   string
	header http.Header
	body   []byte
}

// destination answers calls as the test says, and records them.
type destination struct {
	*httptest.Server
	mu    sync.Mutex
	calls []received
	// answer is asked for each call, with its number from 1.
	answer func(w http.ResponseWriter, r *http.Request, n int)
}

func newDestination(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, n int)) *destination {
	t.Helper()
	d := &destination{answer: answer}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		d.calls = append(d.calls, received{r.URL.Path, r.Header.Clone(), body})
		n, answer := len(d.calls), d.answer
		d.mu.Unlock()
		answer(w, r, n)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *destination) set(answer func(w http.ResponseWriter, r *http.Request, n int)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answer = answer
}

func (d *destination) got() []received {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]received(nil), d.calls...)
}

// says answers with a status and a body.
func says(status int, body string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}
