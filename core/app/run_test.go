package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/identity"
	"github.com/forgequeue/forgequeue/shared/server/secret"
)

func sprint(format string, value any) string { return fmt.Sprintf(format, value) }

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// config is a core's on a given database, on listeners of the test's own.
func config(t *testing.T, databaseURL string) app.Config {
	t.Helper()
	cfg, err := app.Parse(settings(map[string]string{"DATABASE_URL": databaseURL, "REDIS_URL": storetest.Redis(t)}))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listener, cfg.MetricsListener, cfg.Logger = listen(t), listen(t), slog.New(slog.DiscardHandler)
	return cfg
}

// running is a core that serves.
type running struct {
	*testing.T
	url, metrics string
	stop         context.CancelFunc
	ended        chan error
}

func start(t *testing.T, cfg app.Config) *running {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r := &running{
		T: t, url: "http://" + cfg.Listener.Addr().String(), metrics: "http://" + cfg.MetricsListener.Addr().String(),
		stop: stop, ended: make(chan error, 1),
	}
	go func() { r.ended <- app.Run(ctx, cfg) }()
	t.Cleanup(func() {
		stop()
		select {
		case <-r.ended:
		case <-time.After(time.Minute):
			t.Error("Run does not end")
		}
	})
	celltest.Eventually(t, "core to be ready", func() bool {
		status, _ := r.fetch("GET", r.url+"/readyz", nil)
		return status == http.StatusOK
	})
	return r
}

// end stops the core and gives what Run returned.
func (r *running) end() error {
	r.Helper()
	r.stop()
	select {
	case err := <-r.ended:
		r.ended <- nil // for the clean-up
		return err
	case <-time.After(time.Minute):
		r.Fatal("Run does not end")
		return nil
	}
}

// fetch gives status 0 where there is no answer.
func (r *running) fetch(method, target string, body []byte) (status int, answer []byte) {
	r.Helper()
	request, err := http.NewRequestWithContext(r.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	request.Close = true // leaves no connection, nor its goroutines
	u, err := url.Parse(target)
	if err != nil {
		r.Fatal(err)
	}
	request.Header.Set(identity.Header, identity.Sign([]byte(hopSecret), method, u.Path, body, time.Now()))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer func() { _ = response.Body.Close() }()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		r.Fatal(err)
	}
	return response.StatusCode, answer
}

// ask sends one item as a gateway does.
func ask[Resp, Req any](r *running, path string, p hop.Principal, request Req) hop.Result[Resp] {
	r.Helper()
	body, err := json.Marshal(hop.Envelope[Req]{Items: []hop.Item[Req]{{Principal: p, Request: request}}})
	if err != nil {
		r.Fatal(err)
	}
	status, answer := r.fetch("POST", r.url+path, body)
	var results hop.Results[Resp]
	if err := json.Unmarshal(answer, &results); err != nil || len(results.Results) != 1 {
		r.Errorf("%s: %d %s", path, status, answer)
		return hop.Result[Resp]{}
	}
	return results.Results[0]
}

// askOr is ask for a call that may be refused as a whole.
func askOr[Resp, Req any](r *running, path string, p hop.Principal, request Req) hop.Result[Resp] {
	r.Helper()
	body, err := json.Marshal(hop.Envelope[Req]{Items: []hop.Item[Req]{{Principal: p, Request: request}}})
	if err != nil {
		r.Fatal(err)
	}
	_, answer := r.fetch("POST", r.url+path, body)
	var results hop.Results[Resp]
	if err := json.Unmarshal(answer, &results); err == nil && len(results.Results) == 1 {
		return results.Results[0]
	}
	var refused problem.Problem
	if err := json.Unmarshal(answer, &refused); err != nil || refused.Code == "" {
		r.Errorf("%s: %s", path, answer)
	}
	return hop.Result[Resp]{Status: refused.Status, Problem: &refused}
}

func someTenant() hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: uuid.Must(uuid.NewV7()).String()}
}

func claimOf(worker string, wait time.Duration) api.ClaimRequest {
	return api.ClaimRequest{WorkerID: worker, Queues: []string{api.DefaultQueue}, WaitMS: new(wait.Milliseconds())}
}

func TestMigrateServeAndDrain(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.EmptyURL(t))
	if err := app.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "core migrate") {
		t.Fatalf("without a schema: %v", err)
	}
	applied, err := app.Migrate(t.Context(), cfg)
	if err != nil || len(applied) == 0 {
		t.Fatalf("migrate: %v, %v", applied, err)
	}
	if applied, err = app.Migrate(t.Context(), cfg); err != nil || len(applied) != 0 {
		t.Errorf("migrate again: %v, %v", applied, err)
	}

	cfg.Listener, cfg.MetricsListener = listen(t), listen(t) // the first two are closed
	core := start(t, cfg)
	owner := someTenant()
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "test", DelayMS: new(int64(50))}}}
	if got := ask[json.RawMessage](core, hop.SubmitJobs.Path, owner, submit); got.Status != http.StatusAccepted {
		t.Fatalf("submit: %+v", got)
	}
	// it is due in a moment: that takes the promoter and the wake-up
	claimed := ask[api.ClaimResponse](core, hop.ClaimJobs.Path, owner, claimOf("w1", 20*time.Second))
	if claimed.Value == nil || len(claimed.Value.Jobs) != 1 {
		t.Fatalf("claim: %+v", claimed)
	}
	if status, text := core.fetch("GET", core.metrics+"/metrics", nil); status != http.StatusOK ||
		!bytes.Contains(text, []byte("forgequeue_jobs_claimed_total 1")) {
		t.Errorf("metrics: %d", status)
	}
	if status, _ := core.fetch("GET", core.url+"/metrics", nil); status != http.StatusNotFound {
		t.Errorf("metrics are public: %d", status)
	}
	if err := core.end(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if status, _ := core.fetch("GET", core.url+"/livez", nil); status != 0 {
		t.Errorf("it still answers: %d", status)
	}
}

// A worker that waits must not hold the drain up, and asks another core then.
func TestParkedClaimsEndAtTheDrain(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.URL(t))
	core := start(t, cfg)
	behind := celltest.Connect(t, cfg.DatabaseURL.Reveal())
	owner := someTenant()
	const claims = 3
	answers := make(chan hop.Result[api.ClaimResponse], claims)
	for i := range claims {
		go func() {
			answers <- ask[api.ClaimResponse](core, hop.ClaimJobs.Path, owner, claimOf(fmt.Sprintf("w%d", i), 25*time.Second))
		}()
	}
	celltest.Eventually(t, "the claims to come", func() bool {
		var n int
		return behind.QueryRow(t.Context(), `SELECT count(*) FROM workers`).Scan(&n) == nil && n == claims
	})
	began := time.Now()
	if err := core.end(); err != nil {
		t.Errorf("Run = %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the drain took %v", took)
	}
	for range claims {
		if got := <-answers; got.Status != http.StatusOK || got.Value == nil || len(got.Value.Jobs) != 0 {
			t.Errorf("claim = %+v", got)
		}
	}
}

// Redis only makes it faster.
func TestRedisMayBeAway(t *testing.T) {
	t.Parallel()
	cfg := config(t, celltest.URL(t))
	cfg.RedisURL = "redis://127.0.0.1:1"
	core := start(t, cfg)
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "test"}}}
	if got := ask[json.RawMessage](core, hop.SubmitJobs.Path, someTenant(), submit); got.Status != http.StatusAccepted {
		t.Errorf("submit: %+v", got)
	}
	if err := core.end(); err != nil {
		t.Errorf("Run = %v", err)
	}
}

func TestAJobIsClaimedThroughAnotherCore(t *testing.T) {
	t.Parallel()
	databaseURL := celltest.URL(t)
	one, two := start(t, config(t, databaseURL)), start(t, config(t, databaseURL))
	owner := someTenant()
	answers := make(chan hop.Result[api.ClaimResponse], 1)
	go func() {
		answers <- ask[api.ClaimResponse](one, hop.ClaimJobs.Path, owner, claimOf("w1", 25*time.Second))
	}()
	submit := hop.SubmitJobsRequest{IDs: []string{uuid.Must(uuid.NewV7()).String()}, Jobs: []api.SubmitRequest{{Type: "test"}}}
	if got := ask[json.RawMessage](two, hop.SubmitJobs.Path, owner, submit); got.Status != http.StatusAccepted {
		t.Fatalf("submit: %+v", got)
	}
	if got := <-answers; got.Value == nil || len(got.Value.Jobs) != 1 {
		t.Errorf("claim = %+v", got)
	}
}

func TestWhatKeepsACoreFromStarting(t *testing.T) {
	t.Parallel()
	good := config(t, celltest.URL(t))
	taken := listen(t)
	for name, c := range map[string]struct {
		change func(*app.Config)
		says   string
	}{
		"a database that is not one": {func(c *app.Config) { c.DatabaseURL = "nonsense" }, "database URL"},
		"a database of another name": {func(c *app.Config) {
			c.DatabaseURL = secret.Text(strings.Replace(c.DatabaseURL.Reveal(), "/fq_", "/absent_", 1))
		}, "does not exist"},
		"a port in use":               {func(c *app.Config) { c.Listener, c.Listen = nil, taken.Addr().String() }, "FORGEQUEUE_CORE_LISTEN"},
		"a port for metrics in use":   {func(c *app.Config) { c.MetricsListener, c.MetricsListen = nil, taken.Addr().String() }, "FORGEQUEUE_CORE_METRICS_LISTEN"},
		"settings that are wrong":     {func(c *app.Config) { c.HopSecret = "hunter2" }, "FORGEQUEUE_HOP_SECRET"},
		"a Redis URL that is not one": {func(c *app.Config) { c.RedisURL = "hunter2" }, "REDIS_URL"},
	} {
		cfg := good
		cfg.Listener, cfg.MetricsListener = listen(t), listen(t)
		public, private := cfg.Listener, cfg.MetricsListener
		c.change(&cfg)
		began := time.Now()
		err := app.Run(t.Context(), cfg)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s: it took %v to say so", name, took)
		}
		for _, l := range []net.Listener{public, private} {
			given := l == cfg.Listener || l == cfg.MetricsListener
			if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
				_ = conn.Close()
				if given {
					t.Errorf("%s: a listener that was given is still open", name)
				}
			}
		}
	}
}

// A core reports itself while it runs, and takes the report back when it is stopped.
func TestACoreReportsItself(t *testing.T) {
	t.Parallel()
	f := celltest.NewFixture(t)
	r := start(t, config(t, f.URL))
	var found []api.Process
	read := func() bool {
		var err error
		if found, _, err = f.Store.Processes.ReadRegistry(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(found) == 1
	}
	celltest.Eventually(t, "its report", read)
	if one := found[0]; one.Kind != api.ProcessCore || one.State != api.ProcessRunning || !strings.HasSuffix(r.url, one.Address[strings.LastIndex(one.Address, ":"):]) {
		t.Errorf("%+v", one)
	}
	r.stop()
	if err := <-r.ended; err != nil {
		t.Fatal(err)
	}
	r.ended <- nil
	if read() {
		t.Errorf("after its end: %+v", found)
	}
}
