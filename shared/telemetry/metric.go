package telemetry

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is what is known of a metric before anything has been counted.
type Metric struct {
	Name string
	// Type is counter, gauge or histogram.
	Type string
	Help string
	// Labels are the names of its labels, sorted; none for a single series.
	Labels []string
}

// Describe lists by name the metrics that register registers, those of NewRegistry
// included. A scrape would not do: it leaves out what has no series yet. Functions
// behind gauges are called once register has returned.
func Describe(register func(prometheus.Registerer) error) ([]Metric, error) {
	described := &describer{NewRegistry()}
	if err := register(described); err != nil {
		return nil, fmt.Errorf("telemetry: register metrics: %w", err)
	}
	families, err := described.Gather()
	if err != nil {
		return nil, fmt.Errorf("telemetry: gather metrics: %w", err)
	}
	metrics := make([]Metric, len(families))
	for i, family := range families {
		metrics[i] = Metric{Name: family.GetName(), Type: strings.ToLower(family.GetType().String()), Help: family.GetHelp()}
		for _, label := range family.GetMetric()[0].GetLabel() {
			metrics[i].Labels = append(metrics[i].Labels, label.GetName())
		}
	}
	return metrics, nil
}

// describer gives every vector that is registered a series, so that it can be gathered.
type describer struct{ *prometheus.Registry }

// Register registers as a registry does.
func (d *describer) Register(c prometheus.Collector) error {
	switch vector := c.(type) {
	case *prometheus.CounterVec:
		touch(vector.MetricVec)
	case *prometheus.GaugeVec:
		touch(vector.MetricVec)
	case *prometheus.HistogramVec:
		touch(vector.MetricVec)
	}
	return d.Registry.Register(c)
}

// MustRegister registers as a registry does.
func (d *describer) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		if err := d.Register(c); err != nil {
			panic(err)
		}
	}
}

// mostLabels is more than any metric should have.
const mostLabels = 10

// touch makes a series. A vector does not tell how many labels it has, but refuses
// any other number.
func touch(vector *prometheus.MetricVec) {
	for n := range mostLabels {
		if _, err := vector.GetMetricWithLabelValues(make([]string, n)...); err == nil {
			return
		}
	}
}
