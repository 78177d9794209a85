package telemetry

import (
	"fmt"
	"slices"
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
	// Values are those of each label that are there from the start, sorted; none where
	// they show as they occur.
	Values map[string][]string
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
		for _, series := range family.GetMetric() {
			for _, label := range series.GetLabel() {
				metrics[i].note(label.GetName(), label.GetValue())
			}
		}
	}
	return metrics, nil
}

// note adds what is new of a label. An empty value is the describer's.
func (m *Metric) note(label, value string) {
	if !slices.Contains(m.Labels, label) {
		m.Labels = append(m.Labels, label)
	}
	if value == "" || slices.Contains(m.Values[label], value) {
		return
	}
	if m.Values == nil {
		m.Values = map[string][]string{}
	}
	m.Values[label] = append(m.Values[label], value)
	slices.Sort(m.Values[label])
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
