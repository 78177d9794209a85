package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// What the limiter costs: single submits, and claims, through a gateway to an echo that answers at
// once, limiter off and on, in turn with nginx as a proxy to the same echo, without
// limit_req and with it. Gateway and nginx are processes of their own, wrk is the
// load; one iteration is one round of all four. It needs nginx and wrk.
//
//	go test -run '^$' -bench BesideNginx -benchtime 5x ./app/
//
// The bar is gateway-on ÷ nginx-limit ≥ 0.45, the median of the rounds.
func BenchmarkBesideNginx(b *testing.B) {
	for _, tool := range []string{"nginx", "wrk"} {
		if _, err := exec.LookPath(tool); err != nil {
			b.Skip(tool + " is not installed")
		}
	}
	free, held := auth.Mint("live", []byte(keySecret)), auth.Mint("live", []byte(keySecret))
	echo := httptest.NewServer(echoCore(b, map[string]hop.KeyRecord{free.ID: benchKey(free, api.Limits{}), held.ID: benchKey(held, everyLimit())}))
	defer echo.Close()
	dir := b.TempDir()
	gatewayProgram := filepath.Join(dir, "gateway")
	run(b, "go", "build", "-o", gatewayProgram, "../cmd/gateway")
	gateway := startGateway(b, gatewayProgram, echo.URL, storetest.Redis(b))
	plain, limit := startNginx(b, dir, "plain", echo.URL, ""), startNginx(b, dir, "limit", echo.URL, "limit_req zone=z burst=1000000 nodelay;")
	for _, request := range []struct{ name, path, body string }{
		{"submit", "/v1/jobs", `{"type":"mail","payload":{"to":"someone@example.com","n":1}}`},
		{"claim", "/v1/claims", `{"worker_id":"w","queues":["default"]}`},
	} {
		b.Run(request.name, func(b *testing.B) {
			unlimited, limited := wrkScript(b, free, request.path, request.body), wrkScript(b, held, request.path, request.body)
			inTurn(b, []contender{
				{"gateway-off", gateway, unlimited},
				{"nginx", plain, unlimited},
				{"gateway-on", gateway, limited},
				{"nginx-limit", limit, limited},
			})
		})
	}
}

type contender struct{ name, url, script string }

func inTurn(b *testing.B, contenders []contender) {
	b.Helper()
	for _, c := range contenders {
		load(b, c.url, c.script, time.Second) // keys are looked up, connections are made
	}
	rates := map[string][]float64{}
	var ratios []float64
	b.ResetTimer()
	for range b.N {
		for _, c := range contenders {
			rates[c.name] = append(rates[c.name], load(b, c.url, c.script, 3*time.Second))
		}
		ratios = append(ratios, latest(rates["gateway-on"])/latest(rates["nginx-limit"]))
	}
	for _, c := range contenders {
		b.ReportMetric(median(rates[c.name]), c.name+"/s")
	}
	b.ReportMetric(median(ratios), "on÷nginx-limit")
	b.ReportMetric(0, "ns/op") // a round's length says nothing
	b.Logf("rounds %v, ratios %.2f", rates, ratios)
}

// everyLimit is wide enough for any machine.
func everyLimit() api.Limits {
	rate, burst := 1e6, int64(8_000_000)
	return api.Limits{
		RequestsPerSecond: &rate, RequestBurst: &burst, JobsPerSecond: &rate, JobBurst: &burst,
		UserRequestsPerSecond: &rate, UserRequestBurst: &burst, UserJobsPerSecond: &rate, UserJobBurst: &burst,
	}
}

func benchKey(key auth.Key, limits api.Limits) hop.KeyRecord {
	return hop.KeyRecord{
		KeyID: key.ID, Kind: hop.PrincipalTenant, SecretHMAC: key.HMAC([]byte(keySecret)), Tenant: "0190a000-0000-7000-8000-00000000000a",
		User: "bob", Scopes: api.Scopes(), Plan: &api.Plan{Name: "p", Limits: limits},
	}
}

// echoCore knows these keys, and answers everything else as a submit.
func echoCore(b *testing.B, keys map[string]hop.KeyRecord) http.Handler {
	submitted := []byte(`{"status":202,"value":{"id":"0190a000-0000-7000-8000-0000000000b1","type":"mail","queue":"default","state":"queued","warnings":[],"deduplicated":false}}`)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != hop.LookUpKey.Path {
			// one answer for each item, and no more work than that
			body, _ := io.ReadAll(r.Body)
			n := max(bytes.Count(body, []byte(`"principal":`)), 1)
			answers := append(make([]byte, 0, 20+n*(len(submitted)+1)), `{"results":[`...)
			for i := range n {
				if i > 0 {
					answers = append(answers, ',')
				}
				answers = append(answers, submitted...)
			}
			_, _ = w.Write(append(answers, "]}"...))
			return
		}
		var asked hop.Envelope[hop.ID]
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			b.Error(err)
			return
		}
		known := keys[asked.Items[0].Request.ID]
		if err := json.NewEncoder(w).Encode(hop.Results[hop.KeyRecord]{Results: []hop.Result[hop.KeyRecord]{{Status: 200, Value: &known}}}); err != nil {
			b.Error(err)
		}
	})
}

func wrkScript(b *testing.B, key auth.Key, path, body string) string {
	b.Helper()
	file := filepath.Join(b.TempDir(), key.ID+".lua")
	text := fmt.Sprintf(`wrk.method = "POST"
wrk.path = %q
wrk.body = '%s'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer %s"
`, path, body, key.Text())
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return file
}

func startGateway(b *testing.B, program, core, redisURL string) string {
	address := porttest.Address(b)
	settings := settings("FORGEQUEUE_CORE_URL", core, "FORGEQUEUE_LISTEN", address, "FORGEQUEUE_METRICS_LISTEN", porttest.Address(b),
		"FORGEQUEUE_LOG_LEVEL", "warn", "REDIS_URL", redisURL)
	var env []string
	for name, value := range settings {
		env = append(env, name+"="+value)
	}
	if tuned := os.Getenv("GOGC"); tuned != "" {
		env = append(env, "GOGC="+tuned)
	}
	child(b, env, program)
	await(b, address)
	return "http://" + address
}

func startNginx(b *testing.B, dir, name, echo, limit string) string {
	address, own := porttest.Address(b), filepath.Join(dir, name)
	if err := os.Mkdir(own, 0o700); err != nil {
		b.Fatal(err)
	}
	user := ""
	if os.Getuid() == 0 {
		user = "user root;"
	}
	text := strings.NewReplacer("DIR", own, "ADDRESS", address, "ECHO", strings.TrimPrefix(echo, "http://"), "LIMIT", limit, "USER", user).Replace(`
USER daemon off; worker_processes auto; pid DIR/pid; error_log DIR/error warn;
events { worker_connections 4096; }
http {
  access_log off; keepalive_requests 100000000;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  limit_req_zone $binary_remote_addr zone=z:10m rate=1000000r/s;
  upstream echo { server ECHO; keepalive 256; keepalive_requests 100000000; }
  server { listen ADDRESS; location / { LIMIT proxy_pass http://echo; proxy_http_version 1.1; proxy_set_header Connection ""; } }
}`)
	config := filepath.Join(own, "nginx.conf")
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	child(b, os.Environ(), "nginx", "-p", own, "-c", config, "-e", filepath.Join(own, "error"))
	await(b, address)
	return "http://" + address
}

// load gives the requests a second that wrk saw answered well, over 64 connections.
func load(b *testing.B, url, script string, length time.Duration) float64 {
	b.Helper()
	said := run(b, "wrk", "-t1", "-c64", "-d"+length.String(), "-s", script, url)
	rate := regexp.MustCompile(`Requests/sec:\s+([0-9.]+)`).FindStringSubmatch(said)
	if rate == nil || strings.Contains(said, "Non-2xx") || strings.Contains(said, "Socket errors") {
		b.Fatalf("%s: %s", url, said)
	}
	perSecond, err := strconv.ParseFloat(rate[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return perSecond
}

func run(b *testing.B, program string, args ...string) string {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
	defer cancel()
	said, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		b.Fatalf("%s: %v: %s", program, err, said)
	}
	return string(said)
}

// child is a process that ends with the benchmark, its own children too.
func child(b *testing.B, env []string, program string, args ...string) {
	b.Helper()
	command := exec.CommandContext(b.Context(), program, args...)
	command.Env, command.Stderr = env, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = hang
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = command.Wait() }) // the context has ended, and with it the process
}

func await(b *testing.B, address string) {
	b.Helper()
	for began := time.Now(); time.Since(began) < hang; {
		if connection, err := net.DialTimeout("tcp", address, time.Second); err == nil {
			_ = connection.Close()
			return
		}
	}
	b.Fatal("nothing listens on " + address)
}

func latest(values []float64) float64 { return values[len(values)-1] }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
