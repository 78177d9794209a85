// Package metrics holds what core counts about jobs. Labels are reasons and kinds,
// never a tenant, a queue or a job: their number is bounded.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Jobs counts the steps of jobs' lives.
type Jobs struct {
	Submitted    prometheus.Counter
	Claimed      prometheus.Counter
	Outcomes     *prometheus.CounterVec // kind
	DeadLettered *prometheus.CounterVec // reason
	Requeued     *prometheus.CounterVec // reason
	Promoted     prometheus.Counter
	QueueWait    prometheus.Histogram
	Execution    prometheus.Histogram
	EndToEnd     prometheus.Histogram
	ReapDelay    prometheus.Histogram
	Parked       prometheus.Gauge
	SweepErrors  *prometheus.CounterVec // duty
	UsageDrift   prometheus.Gauge
	UsageAdopted prometheus.Counter
}

// NewJobs makes the metrics and registers them.
func NewJobs(registry prometheus.Registerer) *Jobs {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "forgequeue_" + name, Help: help})
	}
	vector := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forgequeue_" + name, Help: help}, []string{label})
	}
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "forgequeue_" + name, Help: help,
			// classic buckets for every scraper, a native histogram for those that know it
			Buckets:                        []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
			NativeHistogramBucketFactor:    1.1,
			NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
		})
	}
	jobs := &Jobs{
		Submitted:    counter("jobs_submitted_total", "Jobs stored."),
		Claimed:      counter("jobs_claimed_total", "Jobs leased to a worker."),
		Outcomes:     vector("job_outcomes_total", "Attempts ended by their lease holder, by kind.", "kind"),
		DeadLettered: vector("jobs_dead_lettered_total", "Jobs that became dead letters, by reason.", "reason"),
		Requeued:     vector("jobs_requeued_total", "Jobs put back in line, by reason.", "reason"),
		Promoted:     counter("jobs_promoted_total", "Scheduled jobs whose time came."),
		QueueWait:    seconds("job_queue_wait_seconds", "From ready to claimed."),
		Execution:    seconds("job_execution_seconds", "From claimed to completed."),
		EndToEnd:     seconds("job_end_to_end_seconds", "From submitted to completed."),
		ReapDelay:    seconds("lease_reap_delay_seconds", "From a lease's end to its being taken back."),
		Parked:       prometheus.NewGauge(prometheus.GaugeOpts{Name: "forgequeue_claims_parked", Help: "Claims that wait for a job."}),
		UsageDrift:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "forgequeue_usage_drift", Help: "Counts of caps that a recount found wrong, as `core verify` would; 0 is right."}),
		UsageAdopted: counter("usage_adopted_total", "Jobs taken into a count that began after them."),
		SweepErrors:  vector("sweep_errors_total", "Background duties that failed, by duty.", "duty"),
	}
	registry.MustRegister(jobs.Submitted, jobs.Claimed, jobs.Outcomes, jobs.DeadLettered, jobs.Requeued, jobs.Promoted,
		jobs.QueueWait, jobs.Execution, jobs.EndToEnd, jobs.ReapDelay, jobs.Parked, jobs.SweepErrors, jobs.UsageDrift, jobs.UsageAdopted)
	return jobs
}
