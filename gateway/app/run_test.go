package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coretest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

func TestMain(m *testing.M) { coretest.Main(m) }

// hang is a guard against a test that would never end, not a bound on speed.
const hang = 20 * time.Second

// gateway is one that runs.
type gateway struct {
	url, metrics string
	stop         context.CancelFunc
	ended        chan struct{}
	err          error // Run's; read it after ended
}

func start(t *testing.T, core, redisURL string, grace time.Duration, more ...string) *gateway {
	t.Helper()
	given := append([]string{"FORGEQUEUE_CORE_URL", core, "REDIS_URL", redisURL, "FORGEQUEUE_OPERATOR_KEY", operatorKey, "FORGEQUEUE_GRACE", grace.String(), "FORGEQUEUE_REDIS_TIMEOUT", "10s"}, more...)
	cfg, err := app.Parse(settings(given...))
	if err != nil {
		t.Fatal(err)
	}
	cfg.Logger = slog.New(slog.DiscardHandler)
	for _, listener := range []*net.Listener{&cfg.Listener, &cfg.MetricsListener} {
		if *listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	g := &gateway{
		url: "http://" + cfg.Listener.Addr().String(), metrics: "http://" + cfg.MetricsListener.Addr().String(),
		stop: stop, ended: make(chan struct{}),
	}
	go func() {
		defer close(g.ended)
		g.err = app.Run(ctx, cfg)
	}()
	t.Cleanup(func() {
		stop()
		_ = g.wait(t)
	})
	return g
}

func (g *gateway) wait(t *testing.T) error {
	t.Helper()
	select {
	case <-g.ended:
		return g.err
	case <-time.After(hang):
		t.Fatal("Run did not return")
		return nil
	}
}

// fetch uses a connection of its own, so that none stays idle behind.
func fetch(t *testing.T, method, url, key, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return response.StatusCode, string(text)
}

func TestRun(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	g := start(t, core.URL, storetest.Redis(t), hang)
	if status, text := fetch(t, "GET", g.url+"/readyz", "", ""); status != 200 || text != `{"status":"ok","checks":{"core":"ok","redis":"ok"}}` {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, text := fetch(t, "GET", g.metrics+"/metrics", "", ""); status != 200 || !strings.Contains(text, `forgequeue_http_request_duration_seconds_count{method="GET",route="/readyz",service="gateway",status="200"} 1`) || !strings.Contains(text, `forgequeue_hop_breaker_state{class="lease"} 0`) {
		t.Errorf("metrics: %d", status)
	}
	if status, _ := fetch(t, "GET", g.url+"/metrics", "", ""); status != 404 {
		t.Errorf("metrics on the public port: %d", status)
	}
	g.stop()
	if err := g.wait(t); err != nil {
		t.Errorf("a clean drain gave %v", err)
	}
	if status, _ := fetch(t, "GET", g.url+"/livez", "", ""); status != 0 {
		t.Errorf("after the end: %d", status)
	}
}

// What is under way when the gateway is told to stop gets its answer.
func TestDrain(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	parked, release := make(chan struct{}), make(chan struct{})
	core.On(hop.ListTenants.Path, func(coretest.Item) coretest.Result {
		close(parked)
		<-release
		return coretest.Value(200, api.Page[api.Tenant]{Items: []api.Tenant{}})
	})
	g := start(t, core.URL, "", hang)
	type reply struct {
		status int
		text   string
	}
	answered := make(chan reply, 1)
	go func() {
		status, text := fetch(t, "GET", g.url+"/v1/admin/tenants", operatorKey, "")
		answered <- reply{status, text}
	}()
	<-parked
	g.stop()
	for status := 1; status != 0; { // until the listener has closed
		status, _ = fetch(t, "GET", g.url+"/livez", "", "")
	}
	close(release)
	if got := <-answered; got.status != 200 {
		t.Errorf("the request under way: %d %s", got.status, got.text)
	}
	if err := g.wait(t); err != nil {
		t.Errorf("a clean drain gave %v", err)
	}
}

// First /readyz says so, while requests are still taken; then who waits for jobs
// is told that there are none, and only then the door closes.
func TestDrainNotice(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	parked := make(chan struct{})
	core.Raw(hop.ClaimJobs.Path, func(_ http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
	})
	g := start(t, core.URL, "", hang, "FORGEQUEUE_DRAIN_NOTICE", "1s")
	key := auth.Mint("live", []byte(keySecret))
	core.AddKey(hop.KeyRecord{KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC([]byte(keySecret)), Tenant: "t", Scopes: []string{"work"}})
	if status, text := fetch(t, "GET", g.url+"/readyz", "", ""); status != 200 {
		t.Fatalf("readyz: %d %s", status, text)
	}
	answered := make(chan string, 1)
	go func() {
		_, text := fetch(t, "POST", g.url+"/v1/claims", key.Text(), `{"worker_id":"w","queues":["q"],"wait_ms":25000}`)
		answered <- text
	}()
	<-parked
	g.stop()
	status, text := 200, ""
	for status == 200 {
		status, text = fetch(t, "GET", g.url+"/readyz", "", "")
	}
	if status != 503 || !strings.Contains(text, `"status":"draining"`) {
		t.Errorf("readyz: %d %s", status, text)
	}
	select {
	case text := <-answered:
		t.Errorf("the claim was answered before the notice was over: %s", text)
	default:
	}
	if status, text := fetch(t, "GET", g.url+"/v1/whoami", key.Text(), ""); status != 200 {
		t.Errorf("a request within the notice: %d %s", status, text)
	}
	began := time.Now()
	if text := <-answered; text != `{"jobs":[]}` {
		t.Errorf("the claim: %s", text)
	}
	if err := g.wait(t); err != nil {
		t.Errorf("a clean drain gave %v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the drain took %v beside a claim of 25 s", took)
	}
}

func TestDrainThatDoesNotEndIsAnError(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	parked := make(chan struct{})
	core.Raw(hop.ListTenants.Path, func(_ http.ResponseWriter, r *http.Request) {
		close(parked)
		<-r.Context().Done()
	})
	g := start(t, core.URL, "", 10*time.Millisecond)
	done := make(chan struct{})
	go func() {
		defer close(done)
		fetch(t, "GET", g.url+"/v1/admin/tenants", operatorKey, "")
	}()
	<-parked
	g.stop()
	if err := g.wait(t); err == nil {
		t.Error("a drain that cut a request gave no error")
	}
	<-done
}

// A key revoked elsewhere stops working when the hint arrives, not 30 s later.
func TestRevocationHint(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	url := storetest.Redis(t)
	g := start(t, core.URL, url, hang)
	key := auth.Mint("live", []byte(keySecret))
	core.AddKey(hop.KeyRecord{KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC([]byte(keySecret)), Tenant: "t", Scopes: []string{"read"}})
	if status, text := fetch(t, "GET", g.url+"/v1/whoami", key.Text(), ""); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	core.RevokeKey(key.ID)
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	publisher := redis.NewClient(options)
	defer publisher.Close()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	limit := time.After(hang)
	for {
		select {
		case <-limit:
			t.Fatal("the key still works")
		case <-again.C:
		}
		if err := publisher.Publish(t.Context(), hop.ChannelKeyRevoked, key.ID).Err(); err != nil {
			t.Fatal(err)
		}
		if status, _ := fetch(t, "GET", g.url+"/v1/whoami", key.Text(), ""); status == 401 {
			return
		}
	}
}

func TestNeitherCoreNorRedisIsNeededToStart(t *testing.T) {
	t.Parallel()
	g := start(t, "http://127.0.0.1:1", "redis://127.0.0.1:1", hang)
	if status, text := fetch(t, "GET", g.url+"/readyz", "", ""); status != 503 || text != `{"status":"starting","checks":{"core":"down","redis":"down"}}` {
		t.Errorf("readyz: %d %s", status, text)
	}
	if status, _ := fetch(t, "GET", g.url+"/livez", "", ""); status != 200 {
		t.Errorf("livez: %d", status)
	}
	status, text := fetch(t, "GET", g.url+"/v1/whoami", auth.Mint("live", []byte(keySecret)).Text(), "")
	var p struct{ Code string }
	if err := json.NewDecoder(bytes.NewReader([]byte(text))).Decode(&p); err != nil || status != 503 || p.Code != "core_unavailable" {
		t.Errorf("whoami: %d %s", status, text)
	}
}

func TestRunRefusesABadConfig(t *testing.T) {
	t.Parallel()
	if err := app.Run(t.Context(), app.Config{Logger: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_HOP_SECRET") {
		t.Errorf("%v", err)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	cfg, err := app.Parse(settings("FORGEQUEUE_LISTEN", taken.Addr().String()))
	if err != nil {
		t.Fatal(err)
	}
	if err := app.Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "FORGEQUEUE_LISTEN") {
		t.Errorf("a port in use: %v", err)
	}
}

// A gateway reports itself to core while it runs, and takes the report back when it is stopped.
func TestAGatewayReportsItself(t *testing.T) {
	t.Parallel()
	core := coretest.New(t)
	reports := make(chan hop.ProcessReport, 100)
	core.On(hop.ReportProcess.Path, func(item coretest.Item) coretest.Result {
		var report hop.ProcessReport
		if err := json.Unmarshal(item.Request, &report); err != nil {
			t.Error(err)
		}
		reports <- report
		return coretest.Value(http.StatusOK, struct{}{})
	})
	g := start(t, core.URL, "", time.Second)
	next := func() hop.ProcessReport {
		select {
		case report := <-reports:
			return report
		case <-time.After(hang):
			t.Fatal("no report")
			return hop.ProcessReport{}
		}
	}
	first := next()
	if len(first.Validate()) > 0 || first.Stops || !strings.HasSuffix(g.url, first.Address[strings.LastIndex(first.Address, ":"):]) {
		t.Errorf("the first report: %+v", first)
	}
	g.stop()
	if err := g.wait(t); err != nil {
		t.Fatal(err)
	}
	last := next()
	for !last.Stops {
		last = next()
	}
	if last.ID != first.ID {
		t.Errorf("the last report: %+v", last)
	}
}
