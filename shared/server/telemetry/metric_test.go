package telemetry_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// What has counted nothing is described too, whatever kind it is of.
func TestDescribe(t *testing.T) {
	t.Parallel()
	some := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "t_some_total", Help: "Some."}, []string{"z", "a"})
	some.WithLabelValues("2", "there")
	some.WithLabelValues("1", "there")
	described, err := telemetry.Describe(func(registry prometheus.Registerer) error {
		registry.MustRegister(
			prometheus.NewCounter(prometheus.CounterOpts{Name: "t_one_total", Help: "One."}),
			some,
			prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "t_depth", Help: "Depth."}, []string{"state"}),
			prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "t_now", Help: "Now.", ConstLabels: prometheus.Labels{"class": "x"}}, func() float64 { return 1 }),
		)
		return registry.Register(prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "t_time_seconds", Help: "Time."}, []string{"route"}))
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []telemetry.Metric
	runtime := false
	for _, metric := range described {
		if strings.HasPrefix(metric.Name, "t_") {
			got = append(got, metric)
		}
		runtime = runtime || metric.Name == "go_goroutines"
	}
	want := []telemetry.Metric{
		{Name: "t_depth", Type: "gauge", Help: "Depth.", Labels: []string{"state"}},
		{Name: "t_now", Type: "gauge", Help: "Now.", Labels: []string{"class"}, Values: map[string][]string{"class": {"x"}}},
		{Name: "t_one_total", Type: "counter", Help: "One."},
		{Name: "t_some_total", Type: "counter", Help: "Some.", Labels: []string{"a", "z"}, Values: map[string][]string{"a": {"there"}, "z": {"1", "2"}}},
		{Name: "t_time_seconds", Type: "histogram", Help: "Time.", Labels: []string{"route"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("described:\n%+v\nnot:\n%+v", got, want)
	}
	if !runtime {
		t.Error("the runtime's metrics are missing")
	}
}

func TestDescribeFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	if _, err := telemetry.Describe(func(prometheus.Registerer) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("Describe = %v", err)
	}
}
