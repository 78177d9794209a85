package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Depths show the jobs and workers in the database, the same in every core: max() over cores is
// right, sum() is not.
type Depths struct {
	jobs    *prometheus.GaugeVec // state
	capped  *prometheus.GaugeVec // state
	workers *prometheus.GaugeVec // status
	oldest  prometheus.Gauge
	updated prometheus.Gauge
}

// NewDepths makes the metrics and registers them.
func NewDepths(registry prometheus.Registerer) *Depths {
	m := maker{registry}
	states := []string{"blocked", "scheduled", "waiting", "queued", "running", "dead_letter"}
	return &Depths{
		jobs: m.gauges("jobs", "Jobs of all tenants by state, as of forgequeue_depth_updated_timestamp_seconds, the same in every core: use max(), not sum().", "state", states...),
		capped: m.gauges("jobs_capped",
			"1 if counting stopped at its limit: forgequeue_jobs is then the larger of the count and PostgreSQL's estimate.", "state", states...),
		workers: m.gauges("workers", "Workers of all tenants by status, the same in every core.", "status", "active", "stale", "dead"),
		oldest:  m.gauge("oldest_queued_age_seconds", "How long the oldest ready job has waited, over all queues; 0 if none waits. The same in every core."),
		updated: m.gauge("depth_updated_timestamp_seconds", "When this core last read depths, workers and the oldest job, in Unix seconds by its own clock; 0 means never."),
	}
}

// Jobs sets the number of jobs in a state; capped says that counting stopped.
func (d *Depths) Jobs(state string, n int64, capped bool) {
	d.jobs.WithLabelValues(state).Set(float64(n))
	stopped := 0.0
	if capped {
		stopped = 1
	}
	d.capped.WithLabelValues(state).Set(stopped)
}

// Workers sets the number of workers with a status.
func (d *Depths) Workers(status string, n int64) { d.workers.WithLabelValues(status).Set(float64(n)) }

// Measured sets the age of the oldest job, and the time of a complete measurement.
func (d *Depths) Measured(oldest time.Duration) {
	d.oldest.Set(oldest.Seconds())
	d.updated.SetToCurrentTime()
}
