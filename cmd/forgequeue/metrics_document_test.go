package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/commands/relay"
	coreapp "github.com/forgequeue/forgequeue/core/app"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// described are the metrics of the gateway, of core and of a relay, without the runtime's.
func described(t *testing.T) (gateway, core, relays []telemetry.Metric) {
	t.Helper()
	own := func(metrics []telemetry.Metric, err error) (own []telemetry.Metric) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range metrics {
			if strings.HasPrefix(metric.Name, "forgequeue_") {
				own = append(own, metric)
			}
		}
		return own
	}
	return own(gatewayapp.Metrics()), own(coreapp.Metrics()), own(relay.Metrics())
}

// The page of metrics is written from what both services register.
func TestMetricsDocument(t *testing.T) {
	t.Parallel()
	gateway, core, relays := described(t)
	var b strings.Builder
	b.WriteString("# Metrics\n\nEach service, and `forgequeue relay`, serves `GET /metrics` in Prometheus's text format, at an address of its own that should stay private " +
		"([settings](config.md):\n`FORGEQUEUE_METRICS_LISTEN`, `FORGEQUEUE_CORE_METRICS_LISTEN`, `FORGEQUEUE_RELAY_METRICS_LISTEN`). Metrics of the Go runtime and the process are not listed. " +
		"Times are in seconds.\nNo label has a tenant, a user, a queue or a job, except the metrics of queues named in `FORGEQUEUE_METRICS_QUEUES`. With [several cells](cells.md) core's metrics have the label `cell`, except those of calls.\n\n" +
		"Counters are per process: add them up over cores. Depths, workers and the oldest job's age come from the database, about every 15 s: use `max()`.\n" +
		"When no request and no job is in progress,\n\n" +
		"```\nsubmitted = completed + cancelled + dead letters + discarded + cleaned dead letters + open\n" +
		"dead letters = dead_lettered - requeued{reason=\"redrive\"} - discarded - cleaned{kind=\"dead_letter\"}\n```\n\n" +
		"where completed is `forgequeue_job_outcomes_total{kind=\"complete\"}`, without what a killed core counted since its last scrape.\n\n" +
		"<!-- Written from the code: go test ./cmd/forgequeue -run TestMetricsDocument -update. -->\n")
	metricList(&b, "gateway", gateway)
	metricList(&b, "core", core)
	metricList(&b, "relay", relays)
	path := filepath.Join("..", "..", "api-docs", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil || string(written) != b.String() {
		t.Errorf("api-docs/metrics.md is not what the code says (%v); run the test with -update", err)
	}
}

func metricList(b *strings.Builder, name string, metrics []telemetry.Metric) {
	fmt.Fprintf(b, "\n## %s\n\n", name)
	classes := false // are listed
	for _, metric := range metrics {
		var labels []string
		for _, label := range metric.Labels {
			// The help often lists what the values mean; class has about the same ones everywhere; a long list is of core's routes.
			if values := metric.Values[label]; len(values) > 0 && len(values) <= 20 && !strings.Contains(metric.Help, label+": ") && (label != "class" || !classes) {
				classes = classes || label == "class"
				label += "`: " + strings.Join(values, ", ")
			} else {
				label += "`"
			}
			labels = append(labels, "`"+label)
		}
		fmt.Fprintf(b, "- `%s` (%s): %s\n", metric.Name, strings.Join(append([]string{metric.Type}, labels...), "; "), metric.Help)
	}
}

// Names and help are as Prometheus's own linter wants them.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	gateway, core, relays := described(t)
	for _, metric := range slices.Concat(gateway, core, relays) {
		var b strings.Builder
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", metric.Name, metric.Help, metric.Name, metric.Type)
		series := metric.Name
		if metric.Type == "histogram" {
			fmt.Fprintf(&b, "%s_bucket{le=\"+Inf\"} 0\n%s_sum 0\n", metric.Name, metric.Name)
			series += "_count"
		}
		var labels []string
		for _, label := range metric.Labels {
			labels = append(labels, label+`=""`)
		}
		fmt.Fprintf(&b, "%s{%s} 0\n", series, strings.Join(labels, ","))
		problems, err := promlint.New(strings.NewReader(b.String())).Lint()
		if err != nil {
			t.Errorf("%v in\n%s", err, b.String())
		}
		for _, problem := range problems {
			t.Errorf("%s: %s", problem.Metric, problem.Text)
		}
	}
}
