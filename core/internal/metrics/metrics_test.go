package metrics_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/metrics"
)

// All metrics of core go into one registry. Each name begins alike, each is explained in a sentence, and no label says
// whose or which: a label of a tenant, a queue or a job has no bound.
func TestMetricsAreBoundedAndExplained(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewPedanticRegistry()
	metrics.NewJobs(registry)
	metrics.NewPush(registry)
	metrics.NewDepths(registry)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) < 40 {
		t.Errorf("%d metrics: those with labels are to be there before their first event", len(families))
	}
	for _, family := range families {
		name, help := family.GetName(), family.GetHelp()
		if !strings.HasPrefix(name, "forgequeue_") || !strings.HasSuffix(help, ".") {
			t.Errorf("%s: %q", name, help)
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				switch label.GetName() {
				case "kind", "reason", "state", "status", "duty", "to", "outcome", "result":
				default:
					t.Errorf("%s has the label %s", name, label.GetName())
				}
				if label.GetValue() == "" {
					t.Errorf("%s has an empty label %s", name, label.GetName())
				}
			}
		}
	}
}
