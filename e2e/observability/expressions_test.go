package observability_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	coreapp "github.com/forgequeue/forgequeue/core/app"
	"github.com/forgequeue/forgequeue/e2e/observability"
	"github.com/forgequeue/forgequeue/e2e/stack"
	gatewayapp "github.com/forgequeue/forgequeue/gateway/app"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

const top = "../.."

// known are the series that can be asked for, by name: what cores and gateways
// register, histograms taken apart, and what Prometheus adds.
type known map[string]telemetry.Metric

func knownSeries(t *testing.T) known {
	t.Helper()
	series := known{
		"up":     {Name: "up", Type: "gauge"},
		"ALERTS": {Name: "ALERTS", Type: "gauge", Labels: []string{"alertname", "alertstate", "severity"}},
	}
	for _, list := range []func() ([]telemetry.Metric, error){coreapp.Metrics, gatewayapp.Metrics} {
		metrics, err := list()
		if err != nil {
			t.Fatal(err)
		}
		for _, metric := range metrics {
			if metric.Type != "histogram" {
				series[metric.Name] = metric
				continue
			}
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				part := metric
				part.Type = "counter"
				if suffix == "_bucket" {
					part.Labels = append(slices.Clone(metric.Labels), "le")
				}
				series[metric.Name+suffix] = part
			}
		}
	}
	return series
}

// labelsOf are the labels that a metric's series have, those of the scrape included.
func labelsOf(metric telemetry.Metric) []string {
	return append([]string{"job", "instance"}, metric.Labels...)
}

// installation-wide: every core reports the same, so that a sum over them is too much.
var sameEverywhere = []string{
	"forgequeue_jobs", "forgequeue_jobs_capped", "forgequeue_workers", "forgequeue_oldest_queued_age_seconds", "forgequeue_depth_updated_timestamp_seconds", "forgequeue_usage_drift",
}

// check gives what is wrong with what an expression asks for: a metric or a label that
// does not exist, or a metric taken for what it is not.
func (k known) check(asked observability.Asked) (wrong []string) {
	for _, selector := range asked.Selectors {
		wrong = append(wrong, k.selector(selector)...)
	}
	for _, label := range asked.Labels {
		if !slices.Contains(k.labels(asked), label) {
			wrong = append(wrong, "no series has the label "+label)
		}
	}
	return wrong
}

func (k known) selector(s observability.Selector) (wrong []string) {
	metric, ok := k[s.Metric]
	if !ok {
		return []string{fmt.Sprintf("nobody registers %q", s.Metric)}
	}
	for _, m := range s.Matchers {
		if !slices.Contains(labelsOf(metric), m.Label) {
			wrong = append(wrong, s.Metric+" has no label "+m.Label)
		} else if values := metric.Values[m.Label]; len(values) > 0 && !slices.ContainsFunc(values, m.Accepts) {
			wrong = append(wrong, fmt.Sprintf("%s has none of %s %s: they are %v", s.Metric, m.Label, m.Value, values))
		}
	}
	rated := slices.Contains(s.Within, "rate") || slices.Contains(s.Within, "increase")
	if rated != (metric.Type == "counter") {
		wrong = append(wrong, fmt.Sprintf("%s is a %s: counters have a rate or an increase, nothing else has", s.Metric, metric.Type))
	}
	if slices.Contains(s.Within, "sum") && slices.Contains(sameEverywhere, s.Metric) {
		wrong = append(wrong, s.Metric+" is the same in each core: take max")
	}
	return wrong
}

// labels gives those that any series of an expression has.
func (k known) labels(asked observability.Asked) (all []string) {
	for _, selector := range asked.Selectors {
		all = append(all, labelsOf(k[selector.Metric])...)
	}
	return all
}

// kept gives the labels that the result of an expression has.
func (k known) kept(asked observability.Asked) []string {
	if asked.Aggregated {
		return asked.Kept
	}
	return k.labels(asked)
}

func reader(t *testing.T) observability.Reader {
	t.Helper()
	return observability.Reader{Program: stack.PromQL(t)}
}

func ask(t *testing.T, r observability.Reader, expr string) observability.Asked {
	t.Helper()
	asked, err := r.Read(t.Context(), expr)
	if err != nil {
		t.Error(err)
	}
	return asked
}

// Every expression of the dashboard and of the alerts asks for what there is.
func TestExpressionsAskForWhatThereIs(t *testing.T) {
	t.Parallel()
	series, promql := knownSeries(t), reader(t)
	read := 0
	for _, panel := range observability.ReadDashboard(t, top).Panels {
		for _, target := range panel.Targets {
			read++
			asked := ask(t, promql, target.Query("5m"))
			for _, wrong := range series.check(asked) {
				t.Errorf("%s, %s: %s", panel.Title, target.RefID, wrong)
			}
			for _, named := range regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`).FindAllStringSubmatch(target.Legend, -1) {
				if !slices.Contains(series.kept(asked), named[1]) {
					t.Errorf("%s, %s: its legend names %s, which the result does not have", panel.Title, target.RefID, named[1])
				}
			}
		}
	}
	if read < 50 {
		t.Errorf("the dashboard has only %d expressions", read)
	}
	for _, alert := range observability.Alerts(t, top) {
		asked := ask(t, promql, alert.Expr)
		for _, wrong := range series.check(asked) {
			t.Errorf("%s: %s", alert.Name, wrong)
		}
		for key, text := range alert.Annotations {
			for _, named := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(text, -1) {
				if !slices.Contains(series.kept(asked), named[1]) {
					t.Errorf("%s: its %s names the label %s, which the alert does not have", alert.Name, key, named[1])
				}
			}
		}
	}
}

// The check notices what it is for.
func TestExpressionsThatAreWrong(t *testing.T) {
	t.Parallel()
	series, promql := knownSeries(t), reader(t)
	for text, want := range map[string]string{
		"rate(forgequeue_gone_total[1m])":                             `nobody registers "forgequeue_gone_total"`,
		`rate(forgequeue_jobs_requeued_total{why="x"}[1m])`:           "has no label why",
		"sum by (tenant) (rate(forgequeue_jobs_submitted_total[1m]))": "no series has the label tenant",
		"sum(rate(forgequeue_jobs_submitted_total[1m])) by (tenant)":  "no series has the label tenant",
		"up * on (zone) up":                                        "no series has the label zone",
		"forgequeue_jobs_submitted_total":                          "counters have a rate",
		"rate(forgequeue_claims_parked[1m])":                       "forgequeue_claims_parked is a gauge",
		"sum(forgequeue_usage_drift)":                              "take max",
		"sum by (job) ((forgequeue_usage_drift))":                  "take max",
		"rate(forgequeue_job_execution_seconds[1m])":               "nobody registers",
		`rate(forgequeue_job_execution_seconds_count{le="1"}[1m])`: "has no label le",
		`forgequeue_jobs{state="READY"}`:                           "forgequeue_jobs has none of state READY",
		`forgequeue_jobs{state=~"ready|asleep"}`:                   "forgequeue_jobs has none of state",
		`up and forgequeue_gone offset 5m`:                         `nobody registers "forgequeue_gone"`,
	} {
		if wrong := strings.Join(series.check(ask(t, promql, text)), "\n"); !strings.Contains(wrong, want) {
			t.Errorf("%s: %q, want %q", text, wrong, want)
		}
	}
	for _, text := range []string{
		`histogram_quantile(0.5, sum by (le) (rate(forgequeue_job_execution_seconds_bucket{job="core", instance=~"a{1}|(b)"}[1m])))`,
		`absent(up{job="core"} == 1) or vector(0)`,
		`max(forgequeue_jobs{state=~"ready|queued"}) + max(forgequeue_jobs{state!="queued"})`,
		`time() - max(forgequeue_claims_parked offset 1h30m) > 1.5e3`,
	} {
		if wrong := series.check(ask(t, promql, text)); wrong != nil {
			t.Errorf("nothing is wrong with %s, and yet: %v", text, wrong)
		}
	}
	for _, text := range []string{"sum(", "up)", "sum by", `up{job="core"`} {
		if _, err := promql.Read(t.Context(), text); err == nil {
			t.Errorf("%s is no expression", text)
		}
	}
}
