package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/forgequeue/forgequeue/cmd/supervisor/porttest"
	"github.com/forgequeue/forgequeue/e2e/observability"
	"github.com/forgequeue/forgequeue/e2e/stack"
	"github.com/forgequeue/forgequeue/shared/api"
)

// What is shipped for Prometheus, on a real one that reads a real gateway and core:
// each query of the dashboard has an answer, no alert fires, and when core is killed
// the right ones do.
func TestPrometheusReadsAll(t *testing.T) {
	t.Parallel()
	c := stack.NewCluster(t, stack.ClusterOptions{})
	p := startPrometheus(t, map[string]string{"core": c.Cores[0].Metrics, "gateway": c.Gateways[0].Metrics})
	someJobs(t, c)
	p.answersAll()
	stack.Eventually(t, time.Minute, "no alert is even pending", func() bool {
		pending := p.alerts()
		delete(pending, "SubmitsSlow") // which the few submits here may be, on a machine that is busy
		return len(pending) == 0
	})

	c.Cores[0].Kill()
	for _, want := range []string{"NoCore", "CoreDown"} {
		stack.Eventually(t, time.Minute, want+" fires", func() bool {
			alert, ok := p.alerts()[want]
			return ok && alert.State == "firing"
		})
		alert := p.alerts()[want]
		for key, text := range alert.Annotations {
			if text == "" || strings.Contains(text, "{{") || strings.Contains(text, "no value") || strings.Contains(text, "error") {
				t.Errorf("%s: its %s is %q", want, key, text)
			}
		}
		if want == "CoreDown" && !strings.Contains(alert.Annotations["summary"], hostOf(t, c.Cores[0].Metrics)) {
			t.Errorf("%s names no core: %q", want, alert.Annotations["summary"])
		}
	}
}

// someJobs completes one job, lets one fail and then be a dead letter, and leaves one.
func someJobs(t *testing.T, c *stack.Cluster) {
	t.Helper()
	tenant := c.Client(t, c.NewTenant(t, "watched").Key)
	once := 1
	stack.Submit(t, tenant, api.SubmitRequest{Type: "x", Queue: "q"})
	job := stack.ClaimOne(t, tenant, "w", "q")
	if _, err := tenant.Complete(t.Context(), job.ID, api.CompleteRequest{LeaseToken: job.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	stack.Submit(t, tenant, api.SubmitRequest{Type: "x", Queue: "q", MaxAttempts: &once})
	job = stack.ClaimOne(t, tenant, "w", "q")
	if _, err := tenant.Fail(t.Context(), job.ID, api.FailRequest{LeaseToken: job.LeaseToken, Error: &api.JobError{Type: "x", Message: "on purpose"}}); err != nil {
		t.Fatal(err)
	}
	stack.Submit(t, tenant, api.SubmitRequest{Type: "x", Queue: "q"})
}

// prometheus is a running one.
type prometheus struct {
	t   *testing.T
	url string
}

// startPrometheus starts one with what is shipped, but for what would take too long
// here: it looks at the targets, the metrics' URLs by name of the job, each second, and
// an alert fires after a second.
func startPrometheus(t *testing.T, targets map[string]string) *prometheus {
	t.Helper()
	dir := t.TempDir()
	program := stack.Need(t, "prometheus")
	config := map[string]any{}
	observability.ReadYAML(t, filepath.Join("..", observability.Folder, "prometheus.yml"), &config)
	config["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	address := porttest.Address(t)
	for _, each := range config["scrape_configs"].([]any) {
		job := each.(map[string]any)
		at := address
		if target, ok := targets[job["job_name"].(string)]; ok {
			at = hostOf(t, target)
		}
		delete(job, "dns_sd_configs")
		job["static_configs"] = []any{map[string]any{"targets": []string{at}}}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	alerts, err := os.ReadFile(stack.Repository(observability.Folder, "alerts.yml"))
	if err != nil {
		t.Fatal(err)
	}
	rules := regexp.MustCompile(`(?m)^( *for: ).*$`).ReplaceAllString(string(alerts), "${1}1s")
	for name, content := range map[string]string{"prometheus.yml": string(text), "alerts.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	stack.StartCommand(t, exec.CommandContext(context.WithoutCancel(t.Context()), program, "--log.level=warn", "--web.listen-address="+address,
		"--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data")))
	p := &prometheus{t, "http://" + address}
	stack.Eventually(t, time.Minute, "Prometheus has read all targets twice", func() bool {
		return slices.Equal(p.query("count(min_over_time(up[10s]) == 1 and count_over_time(up[10s]) > 1)"), []string{"3"})
	})
	return p
}

// silentPanels are those of the dashboard without a series where all is well.
var silentPanels = []string{"Jobs by state B"}

// answersAll waits until every query of the dashboard has an answer.
func (p *prometheus) answersAll() {
	p.t.Helper()
	open := map[string]string{}
	for _, panel := range observability.ReadDashboard(p.t, "..").Panels {
		for _, target := range panel.Targets {
			open[panel.Title+" "+target.RefID] = target.Query("30s")
		}
	}
	for _, silent := range silentPanels {
		if got := p.query(open[silent]); open[silent] == "" || len(got) != 0 {
			p.t.Errorf("%s: %q has %v", silent, open[silent], got)
		}
		delete(open, silent)
	}
	deadline := time.Now().Add(stack.Patience(30 * time.Second))
	stack.Eventually(p.t, time.Minute, "each query of the dashboard has an answer", func() bool {
		for name, query := range open {
			if len(p.query(query)) > 0 {
				delete(open, name)
			} else if time.Now().After(deadline) {
				p.t.Fatalf("%s has no series: %s", name, query)
			}
		}
		return len(open) == 0
	})
}

// query gives the values of an expression's series.
func (p *prometheus) query(expr string) (values []string) {
	p.t.Helper()
	var data struct {
		Result []struct {
			Value [2]any `json:"value"`
		} `json:"result"`
	}
	if !p.get("/api/v1/query?query="+url.QueryEscape(expr), &data) {
		return nil
	}
	for _, series := range data.Result {
		values = append(values, series.Value[1].(string))
	}
	return values
}

type alertState struct {
	State       string            `json:"state"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// alerts gives those that are pending or fire, by name.
func (p *prometheus) alerts() map[string]alertState {
	p.t.Helper()
	var data struct {
		Alerts []alertState `json:"alerts"`
	}
	if !p.get("/api/v1/alerts", &data) {
		p.t.Fatal("Prometheus does not tell its alerts")
	}
	named := map[string]alertState{}
	for _, alert := range data.Alerts {
		named[alert.Labels["alertname"]] = alert
	}
	return named
}

// get asks Prometheus, false while it does not listen yet. What it refuses fails the
// test.
func (p *prometheus) get(path string, data any) bool {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+path, http.NoBody)
	if err != nil {
		p.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return false // it is just starting
	}
	if answer.Status != "success" {
		p.t.Fatalf("%s: %s", path, answer.Error)
	}
	return true
}

func hostOf(t *testing.T, address string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}
