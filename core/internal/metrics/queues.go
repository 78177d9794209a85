package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Queues show single queues, which the operator has named: only their labels are a tenant and a queue.
type Queues struct {
	jobs    *prometheus.GaugeVec // tenant, queue, state
	oldest  *prometheus.GaugeVec // tenant, queue
	desired *prometheus.GaugeVec // tenant, queue
}

// NewQueues makes the metrics and registers them.
func NewQueues(registry prometheus.Registerer) *Queues {
	gauges := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "forgequeue_queue_" + name, Help: help + " Only of the queues in FORGEQUEUE_METRICS_QUEUES, the same in every core: use max(), not sum()."}, labels)
		registry.MustRegister(g)
		return g
	}
	return &Queues{
		jobs:    gauges("jobs", "Jobs of a queue by state; counting stops at 10,000.", "tenant", "queue", "state"),
		oldest:  gauges("oldest_queued_age_seconds", "How long the oldest ready job of a queue has waited; 0 if none waits.", "tenant", "queue"),
		desired: gauges("desired_slots", "How many slots of workers a queue needs so that jobs wait for at most about 30 s, as GET /v1/queues/{name}/scale says.", "tenant", "queue"),
	}
}

// Set sets what was measured of a queue.
func (q *Queues) Set(owner string, shown *api.Queue, scale *api.Scale) {
	depth := &shown.Depth
	for state, n := range map[string]int64{
		api.StateBlocked: depth.Blocked, api.StateScheduled: depth.Scheduled, api.StateWaiting: depth.Waiting,
		api.StateQueued: depth.Queued, api.StateRunning: depth.Running, api.StateDeadLetter: depth.DeadLetter,
	} {
		q.jobs.WithLabelValues(owner, shown.Name, state).Set(float64(n))
	}
	oldest := 0.0
	if shown.OldestQueuedMS != nil {
		oldest = float64(*shown.OldestQueuedMS) / 1000
	}
	q.oldest.WithLabelValues(owner, shown.Name).Set(oldest)
	q.desired.WithLabelValues(owner, shown.Name).Set(float64(scale.DesiredSlots))
}

// Forget removes a queue that is not there.
func (q *Queues) Forget(owner, name string) {
	labels := prometheus.Labels{"tenant": owner, "queue": name}
	for _, gauges := range []*prometheus.GaugeVec{q.jobs, q.oldest, q.desired} {
		gauges.DeletePartialMatch(labels)
	}
}
