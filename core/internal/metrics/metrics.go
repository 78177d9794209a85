// Package metrics holds core's metrics. Labels are reasons and kinds, never a tenant, a queue or a
// job, but for the few queues that the operator names: their number is bounded.
package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Reasons of a requeue that are no event of the job. The others have the name of the event or of
// the outcome.
const (
	// WorkerDead: its worker had no heartbeat for too long, and lost all its leases.
	WorkerDead = "worker_dead"
	// Undelivered: it was claimed for a caller that had left.
	Undelivered = "undelivered"
	// Redrive: it was a dead letter.
	Redrive = "redrive"
)

// Jobs counts the steps of jobs, and workers.
type Jobs struct {
	Submitted       prometheus.Counter
	Claimed         prometheus.Counter
	Outcomes        *prometheus.CounterVec // kind
	DeadLettered    *prometheus.CounterVec // reason
	Requeued        *prometheus.CounterVec // reason
	Cancelled       prometheus.Counter
	Discarded       prometheus.Counter
	Promoted        prometheus.Counter
	Unblocked       prometheus.Counter
	PastGates       prometheus.Counter
	FollowUpAge     prometheus.Gauge
	WebhookEvents   prometheus.Counter
	WebhookEventAge prometheus.Gauge
	Cleaned         *prometheus.CounterVec // kind
	QueueWait       prometheus.Histogram
	Execution       prometheus.Histogram
	EndToEnd        prometheus.Histogram
	ReapDelay       prometheus.Histogram
	Parked          prometheus.Gauge
	SweepErrors     *prometheus.CounterVec // duty
	StatsLost       prometheus.Counter
	UsageDrift      prometheus.Gauge
	UsageBackfilled prometheus.Counter
	Workers         *Workers
	Schedules       *Schedules
}

// NewJobs makes the metrics and registers them.
func NewJobs(registry prometheus.Registerer) *Jobs {
	m := maker{registry}
	return &Jobs{
		Submitted: m.counter("jobs_submitted_total", "Jobs stored."),
		Claimed:   m.counter("jobs_claimed_total", "Jobs leased to a worker."),
		Outcomes: m.counters("job_outcomes_total", "Attempts ended by their lease holder, by kind.", "kind",
			api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease),
		DeadLettered: m.counters("jobs_dead_lettered_total", "Jobs that became dead letters, by reason.", "reason",
			"exhausted", "permanent", "worker_lost", "deadline"),
		Requeued: m.counters("jobs_requeued_total", "Jobs that became queued or scheduled again, by reason.", "reason",
			api.KindFail, api.KindSnooze, api.KindRelease, "lease_expired", "timeout", WorkerDead, Undelivered, Redrive),
		Cancelled:       m.counter("jobs_cancelled_total", "Jobs that ended by a cancel."),
		Discarded:       m.counter("jobs_discarded_total", "Dead letters deleted by a discard."),
		Promoted:        m.counter("jobs_promoted_total", "Scheduled jobs that were queued because they were due."),
		Unblocked:       m.counter("jobs_unblocked_total", "Blocked jobs whose last parent was resolved."),
		PastGates:       m.counter("jobs_past_gates_total", "Jobs with a key or costs that became ready after they had waited for a limit by key, a rate by key or a budget, or had become due or ready again."),
		FollowUpAge:     m.gauge("follow_up_age_seconds", "Age of the oldest follow-up: how late blocked jobs are released after a parent has ended."),
		WebhookEvents:   m.counter("webhook_events_total", "Events of webhooks that were worked off: a delivery was submitted for each of a job, and for each end of a workflow."),
		WebhookEventAge: m.gauge("webhook_event_age_seconds", "Age of the oldest event of a webhook without a delivery: how late deliveries are submitted."),
		Cleaned: m.counters("jobs_cleaned_total",
			"Rows removed because their retention was over, by kind; lanes because they were empty and unused. Finished jobs, attempts and chunks of output are removed by whole days, and counted as PostgreSQL estimates them.",
			"kind", CleanedFinished, CleanedAttempt, CleanedOutput, CleanedDeadLetter, CleanedRedrive, CleanedAudit, CleanedIdempotencyKey, CleanedDependency, CleanedWorkflow, CleanedLane, CleanedScheduleRun, CleanedStats),
		QueueWait:       m.seconds("job_queue_wait_seconds", "From ready to claimed."),
		Execution:       m.seconds("job_execution_seconds", "From claimed to completed."),
		EndToEnd:        m.seconds("job_end_to_end_seconds", "From submitted to completed."),
		ReapDelay:       m.seconds("lease_reap_delay_seconds", "From the expiry of a lease until it is reaped."),
		Parked:          m.gauge("claims_parked", "Claims that wait for a job."),
		UsageDrift:      m.gauge("usage_drift", "Counts for caps that a recount found wrong, as `core verify` would; it should be 0."),
		UsageBackfilled: m.counter("usage_adopted_total", "Jobs added to a count that started after they were stored."),
		StatsLost:       m.counter("stats_events_lost_total", "Events that are missing in job stats, because too many queues were active at once or PostgreSQL's answer was lost."),
		SweepErrors: m.counters("sweep_errors_total", "Background duties that failed, by duty.", "duty",
			"deadlines", "deliveries", "depths", "follow_up", "forget", "gates", "lanes", "ledger", "partitions", "processes", "promote", "reap", "redrive", "schedules", "signals", "stats", "stats_rollup", "usage", "workers"),
		Workers:   newWorkers(m),
		Schedules: newSchedules(m),
	}
}

// Kinds of rows that retention deletes.
const (
	CleanedFinished       = "finished"
	CleanedAttempt        = "attempt"
	CleanedOutput         = "output"
	CleanedDeadLetter     = "dead_letter"
	CleanedRedrive        = "redrive"
	CleanedLane           = "lane"
	CleanedAudit          = "audit"
	CleanedIdempotencyKey = "idempotency_key"
	CleanedDependency     = "dependency"
	CleanedWorkflow       = "workflow"
	CleanedScheduleRun    = "schedule_run"
	CleanedStats          = "job_stats"
)

// maker makes metrics and registers them.
type maker struct{ registry prometheus.Registerer }

func (m maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "forgequeue_" + name, Help: help})
	m.registry.MustRegister(c)
	return c
}

// counters are initialised to 0 for each value: a rate includes the first event.
func (m maker) counters(name, help, label string, values ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "forgequeue_" + name, Help: help}, []string{label})
	for _, value := range values {
		c.WithLabelValues(value)
	}
	m.registry.MustRegister(c)
	return c
}

func (m maker) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "forgequeue_" + name, Help: help})
	m.registry.MustRegister(g)
	return g
}

func (m maker) gauges(name, help, label string, values ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "forgequeue_" + name, Help: help}, []string{label})
	for _, value := range values {
		g.WithLabelValues(value)
	}
	m.registry.MustRegister(g)
	return g
}

func (m maker) seconds(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "forgequeue_" + name, Help: help,
		// classic buckets for every scraper, a native histogram for those that support it
		Buckets:                        []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
		NativeHistogramBucketFactor:    1.1,
		NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour,
	})
	m.registry.MustRegister(h)
	return h
}
