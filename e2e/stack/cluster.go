package stack

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/cmd/supervisor/storetest"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// What every Cluster is started with.
const (
	// Operator is the operator key.
	Operator = "operator-key-of-these-tests-0123456789"
	// HopSecret is what gateways sign with.
	HopSecret = "hop-secret-of-these-tests-0123456789"
)

// ClusterOptions say what a Cluster is made of.
type ClusterOptions struct {
	// Cores and Gateways are how many of each; 1 if 0. Gateway i calls core i, or the last.
	Cores, Gateways int
	// Cells are the names in the file that Settings have as FORGEQUEUE_CELLS, the home cell first: each has Cores of its own.
	Cells []string
	// DatabaseURL and RedisURL are stores of the caller's; a new database on the
	// test's own servers if empty.
	DatabaseURL, RedisURL string
	// CoreRedisURL, where not empty, is the cores' own: another user of the same Redis.
	CoreRedisURL string
	// Through, where not nil, gives the database URL that the cores get: a proxy's.
	Through func(databaseURL string) string
	// Clocks, where not nil, are how far the clocks of core 0, gateway 0, core 1 … are
	// ahead, as durations; the others' are right.
	Clocks []string
	// Settings are for all processes, beside those that are needed.
	Settings map[string]string
}

// Cluster is cores and gateways, each a process of its own, on a database of
// their own.
type Cluster struct {
	DatabaseURL, RedisURL string
	Cores, Gateways       []*Service
}

// NewCluster starts all services and waits until they are ready.
func NewCluster(tb testing.TB, o ClusterOptions) *Cluster {
	tb.Helper()
	c := &Cluster{DatabaseURL: o.DatabaseURL, RedisURL: o.RedisURL}
	migrated := c.DatabaseURL == ""
	if migrated {
		c.DatabaseURL = migratedDatabase(tb)
	}
	if c.RedisURL == "" {
		c.RedisURL = storetest.Redis(tb)
	}
	settings := map[string]string{
		"DATABASE_URL": c.DatabaseURL, "REDIS_URL": c.RedisURL, "FORGEQUEUE_OPERATOR_KEY": Operator,
		"FORGEQUEUE_HOP_SECRET": HopSecret, "FORGEQUEUE_KEY_SECRET": strings.Repeat("k", 32),
		"FORGEQUEUE_LOG_LEVEL": "error",
		// A machine with much to do is none of the faults: what a request may take is
		// not what these tests are about.
		"FORGEQUEUE_GRACE": Patience(10 * time.Second).String(), "FORGEQUEUE_REQUEST_TIMEOUT": "30s",
		"FORGEQUEUE_DATABASE_WAIT": "20s", "FORGEQUEUE_REDIS_TIMEOUT": "2s",
	}
	maps.Copy(settings, o.Settings)
	if !migrated {
		migrate(tb, settings)
	}
	if o.Through == nil {
		o.Through = throughPgBouncer(tb)
	}
	if o.Through != nil {
		settings["DATABASE_URL"] = o.Through(c.DatabaseURL)
	}
	cells := o.Cells
	if cells == nil {
		cells = []string{""}
	}
	for _, cell := range cells {
		for i := range max(o.Cores, 1) {
			core := newService(tb, settings, "core")
			core.set("FORGEQUEUE_CORE_LISTEN", "FORGEQUEUE_CORE_METRICS_LISTEN")
			core.settings["REDIS_URL"] = cmp.Or(o.CoreRedisURL, c.RedisURL)
			if cell != "" {
				core.settings["FORGEQUEUE_SERVE_CELLS"] = cell
			}
			if cell != cells[0] {
				core.settings["FORGEQUEUE_HOME_URL"] = c.Cores[0].URL + "/cells/" + cells[0]
			}
			core.SetClock(clock(o.Clocks, 2*i))
			c.Cores = append(c.Cores, core)
			core.Start()
		}
	}
	for i := range max(o.Gateways, 1) {
		gateway := newService(tb, settings, "gateway")
		gateway.set("FORGEQUEUE_LISTEN", "FORGEQUEUE_METRICS_LISTEN")
		gateway.SetClock(clock(o.Clocks, 2*i+1))
		gateway.settings["FORGEQUEUE_CORE_URL"] = c.coreURL(o, i)
		c.Gateways = append(c.Gateways, gateway)
		gateway.Start()
	}
	for _, gateway := range c.Gateways {
		gateway.AwaitReady()
	}
	return c
}

// coreURL is the core of a gateway, one of each cell.
func (c *Cluster) coreURL(o ClusterOptions, gateway int) string {
	each := max(o.Cores, 1)
	if o.Cells == nil {
		return c.Cores[min(gateway, each-1)].URL
	}
	urls := make([]string, len(o.Cells))
	for i, cell := range o.Cells {
		urls[i] = cell + "=" + c.Cores[i*each+min(gateway, each-1)].URL + "/cells/" + cell
	}
	return strings.Join(urls, ",")
}

// PushSettings let queues push to this machine.
func PushSettings() map[string]string {
	return map[string]string{"FORGEQUEUE_PUSH_SECRETS_KEY": strings.Repeat("p", 32), "FORGEQUEUE_PUSH_ALLOW": "127.0.0.0/8"}
}

// Tenant is a tenant with a key for all that a tenant may do.
type Tenant struct{ ID, Key string }

// NewTenant makes a tenant without limits.
func (c *Cluster) NewTenant(tb testing.TB, name string) Tenant {
	tb.Helper()
	admin := newClient(tb, c.Gateways[0].URL, Operator)
	defer admin.CloseIdleConnections()
	plan := "unlimited"
	tenant, err := admin.CreateTenant(tb.Context(), api.TenantRequest{Name: name, Plan: &plan})
	if err != nil {
		tb.Fatalf("stack: tenant: %v", err)
	}
	key, err := admin.CreateKey(tb.Context(), tenant.ID, api.KeyRequest{Scopes: api.Scopes()})
	if err != nil {
		tb.Fatalf("stack: key: %v", err)
	}
	return Tenant{tenant.ID, key.Secret}
}

// Client gives a client of the first gateway, whose answers are held to its document.
func (c *Cluster) Client(tb testing.TB, key string) *client.Client {
	tb.Helper()
	made := newClient(tb, c.Gateways[0].URL, key)
	tb.Cleanup(made.CloseIdleConnections)
	return made
}

// NewKey makes another key for all that a tenant may do, which expires.
func (c *Cluster) NewKey(tb testing.TB, tenant Tenant, expires time.Time) string {
	tb.Helper()
	admin := newClient(tb, c.Gateways[0].URL, Operator)
	defer admin.CloseIdleConnections()
	key, err := admin.CreateKey(tb.Context(), tenant.ID, api.KeyRequest{Scopes: api.Scopes(), ExpiresAt: &api.Time{Time: expires}})
	if err != nil {
		tb.Fatalf("stack: key: %v", err)
	}
	return key.Secret
}

// NewPlatformKey makes a key whose holder claims from the queues of all tenants.
func (c *Cluster) NewPlatformKey(tb testing.TB) string {
	tb.Helper()
	admin, err := client.New(client.Options{URL: c.Gateways[0].URL, APIKey: Operator})
	if err != nil {
		tb.Fatal(err)
	}
	defer admin.CloseIdleConnections()
	key, err := admin.CreatePlatformKey(tb.Context(), api.PlatformKeyRequest{})
	if err != nil {
		tb.Fatalf("stack: platform key: %v", err)
	}
	return key.Secret
}

// Weigh gives a tenant a weight, in force in every core when the hint has reached it.
func (c *Cluster) Weigh(tb testing.TB, tenant Tenant, weight int) {
	tb.Helper()
	status, answer := Call(tb, http.MethodPatch, c.Gateways[0].URL+"/v1/admin/tenants/"+tenant.ID, Operator, fmt.Appendf(nil, `{"weight":%d}`, weight))
	if status != http.StatusOK {
		tb.Fatalf("stack: weight of %s: %d %s", tenant.ID, status, answer)
	}
}

// Override gives a tenant limits of its own, in force in every core and gateway
// when the hint has reached them.
func (c *Cluster) Override(tb testing.TB, tenant Tenant, overrides api.Overrides) {
	tb.Helper()
	body, err := json.Marshal(map[string]any{"overrides": overrides})
	if err != nil {
		tb.Fatal(err)
	}
	status, answer := Call(tb, http.MethodPatch, c.Gateways[0].URL+"/v1/admin/tenants/"+tenant.ID, Operator, body)
	if status != http.StatusOK {
		tb.Fatalf("stack: overrides of %s: %d %s", tenant.ID, status, answer)
	}
}

// Verify runs `core verify` and gives what it found to be wrong, a line each.
func (c *Cluster) Verify(tb testing.TB) []string {
	tb.Helper()
	verify := newService(tb, c.Cores[0].settings, "core", "verify")
	verify.settings["DATABASE_URL"] = c.DatabaseURL
	verify.Start()
	first, err := verify.process.FirstLine(time.Minute)
	if err != nil {
		tb.Fatalf("stack: verify: %v\n%s", err, verify.process.Output())
	}
	lines := verify.process.Lines(time.Minute)
	code := verify.process.Wait(tb, time.Minute)
	if (code == 0) != (len(lines) == 0) || code > 1 || first != fmt.Sprint("drift: ", len(lines)) {
		tb.Fatalf("stack: verify says %q, %d lines, exit code %d\n%s", first, len(lines), code, verify.process.Output())
	}
	return lines
}

// Recount runs `core recount` and gives what it wrote and its exit code.
func (c *Cluster) Recount(tb testing.TB) (output string, code int) {
	tb.Helper()
	recount := newService(tb, c.Cores[0].settings, "core", "recount")
	recount.settings["DATABASE_URL"] = c.DatabaseURL
	recount.Start()
	lines := recount.process.Lines(time.Minute)
	code = recount.process.Wait(tb, time.Minute)
	return strings.Join(append(lines, recount.process.Output()), "\n"), code
}

// Command starts a command of core, with the settings of the first one.
func (c *Cluster) Command(tb testing.TB, args ...string) *Process {
	tb.Helper()
	command := newService(tb, c.Cores[0].settings, append([]string{"core"}, args...)...)
	command.settings["DATABASE_URL"] = c.DatabaseURL
	command.Start()
	return command.process
}

// SetQueue gives a tenant's queue its settings, in force when it returns.
func (c *Cluster) SetQueue(tb testing.TB, tenant Tenant, queue string, settings map[string]any) {
	tb.Helper()
	body, err := json.Marshal(settings)
	if err != nil {
		tb.Fatal(err)
	}
	status, answer := Call(tb, http.MethodPut, c.Gateways[0].URL+"/v1/queues/"+queue, tenant.Key, body)
	if status != http.StatusOK {
		tb.Fatalf("stack: settings of %s: %d %s", queue, status, answer)
	}
}

// Call makes one request and gives status and body.
func Call(tb testing.TB, method, target, key string, body []byte) (int, []byte) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		tb.Fatalf("stack: %s %s: %v", method, target, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return response.StatusCode, answer
}

// Service is one core or gateway. It keeps its address when it is started again.
type Service struct {
	tb       testing.TB
	args     []string
	settings map[string]string
	process  *Process
	// URL and Metrics are where it listens.
	URL, Metrics string
}

func newService(tb testing.TB, settings map[string]string, args ...string) *Service {
	return &Service{tb: tb, args: args, settings: maps.Clone(settings)}
}

func (s *Service) set(listen, metrics string) {
	s.tb.Helper()
	s.settings[listen], s.settings[metrics] = porttest.Address(s.tb), porttest.Address(s.tb)
	s.URL, s.Metrics = "http://"+s.settings[listen], "http://"+s.settings[metrics]+"/metrics"
}

func clock(clocks []string, i int) string {
	if i < len(clocks) {
		return clocks[i]
	}
	return ""
}

// SetClock sets how far the service's clock is ahead from its next start on, as a
// duration; "" leaves it as it is.
func (s *Service) SetClock(ahead string) {
	if ahead != "" {
		s.settings[FaultClockEnv] = ahead
	}
}

// Set changes a setting from the service's next start on.
func (s *Service) Set(name, value string) { s.settings[name] = value }

// Start starts the service, which must not run.
func (s *Service) Start() {
	s.tb.Helper()
	program := &forgequeue
	if s.settings[FaultClockEnv] != "" {
		program = &otherClock
	}
	command := exec.CommandContext(context.Background(), program.get(s.tb), s.args...)
	command.Env = os.Environ()
	for name, value := range s.settings {
		command.Env = append(command.Env, name+"="+value)
	}
	s.process = StartCommand(s.tb, command)
}

// Kill ends it by SIGKILL. It says whether it was still running: whether the kill
// was the fault.
func (s *Service) Kill() bool {
	alive := s.process.Running()
	s.process.Kill()
	return alive
}

// Stop ends it by SIGTERM and gives its exit code, and how long it took.
func (s *Service) Stop() (int, time.Duration) {
	s.tb.Helper()
	begun := time.Now()
	code := s.process.Stop(s.tb)
	return code, time.Since(begun)
}

// Pid is the running, or last, process'.
func (s *Service) Pid() int { return s.process.Pid() }

// Output is what the running, or last, process wrote to standard error.
func (s *Service) Output() string { return s.process.Output() }

// AwaitReady waits until a core says that it reaches its database, or a gateway that it reaches its core. A gateway asks its
// core once a second at most: after the start of a core, await that one too.
func (s *Service) AwaitReady() {
	s.tb.Helper()
	reaches := map[string]string{"core": `"database":"ok"`, "gateway": `"core":"ok"`}[s.args[0]]
	Eventually(s.tb, time.Minute, s.args[0]+" at "+s.URL+" is ready", func() bool {
		request, err := http.NewRequestWithContext(s.tb.Context(), http.MethodGet, s.URL+"/readyz", nil)
		if err != nil {
			s.tb.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), reaches)
	})
}

// Metric reads one number from /metrics; labels, if any, are summed.
func (s *Service) Metric(name string) float64 {
	s.tb.Helper()
	_, text := Call(s.tb, http.MethodGet, s.Metrics, "none", nil)
	sum := 0.0
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || (rest[0] != ' ' && rest[0] != '{') {
			continue
		}
		var value float64
		if _, err := fmt.Sscan(rest[strings.LastIndexByte(rest, ' '):], &value); err == nil {
			sum += value
		}
	}
	return sum
}
