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
	b.WriteString("# Metrics\n\nEach service, and `forgequeue relay` (where its address is set), serves `GET /metrics`, at a separate address that should stay private " +
		"([settings](config.md): `FORGEQUEUE_METRICS_LISTEN`,\n`FORGEQUEUE_CORE_METRICS_LISTEN`, `FORGEQUEUE_RELAY_METRICS_LISTEN`), in Prometheus's text format. " +
		"The metrics of the Go runtime and the process (`go_*`,\n`process_*`) are not listed here. Times are in seconds; histograms are both classic and native. " +
		"No label has a tenant, a user, a queue or a job.\n\n" +
		"Counters are per process: add them up over cores. When no request and no job is in progress,\n\n" +
		"```\nsubmitted = completed + cancelled + dead letters + discarded + cleaned dead letters + open\n" +
		"dead letters = dead_lettered - requeued{reason=\"redrive\"} - discarded - cleaned{kind=\"dead_letter\"}\n```\n\n" +
		"where completed is `forgequeue_job_outcomes_total{kind=\"complete\"}`; what a killed core counted since its last scrape is missing.\n" +
		"Depths, workers and the oldest job's age come from the database, which every core queries about every 15 s: use `max()`, not `sum()`.\n" +
		"With [several cells](cells.md) each metric of core but those of calls has the label `cell` too.\n\n" +
		"This page is written from the code: `go test ./cmd/forgequeue -run TestMetricsDocument -update`.\n")
	table(&b, "gateway", gateway)
	table(&b, "core", core)
	table(&b, "relay", relays)
	path := filepath.Join("..", "..", "api-docs", "metrics.md")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile(path)
	if err != nil || string(written) != b.String() {
		t.Errorf("api-docs/metrics.md is not what the code says (%v); write it anew with -update", err)
	}
}

func table(b *strings.Builder, name string, metrics []telemetry.Metric) {
	fmt.Fprintf(b, "\n## %s\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", name)
	for _, metric := range metrics {
		var labels []string
		for _, label := range metric.Labels {
			if values := metric.Values[label]; len(values) > 0 {
				label += "`: " + strings.Join(values, ", ")
			} else {
				label += "`"
			}
			labels = append(labels, "`"+label)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", metric.Name, metric.Type, strings.Join(labels, "; "), metric.Help)
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
