package relay

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/outbox"
	"github.com/forgequeue/forgequeue/shared/server/telemetry"
)

// watcher keeps what the metrics show of the outbox.
type watcher struct {
	table  *outbox.Table
	relay  *outbox.Relay
	logger *slog.Logger

	mu    sync.Mutex
	stats outbox.Stats
	read  bool
}

func (w *watcher) set(stats outbox.Stats, read bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.read = read; read {
		w.stats = stats
	}
}

func (w *watcher) get() (outbox.Stats, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats, w.read
}

// Metrics lists what a relay shows.
func Metrics() ([]telemetry.Metric, error) {
	return telemetry.Describe(func(to prometheus.Registerer) error { return (&watcher{relay: &outbox.Relay{}}).register(to) })
}

func (w *watcher) register(to prometheus.Registerer) error {
	var problems []error
	gauge := func(name, help string, labels prometheus.Labels, value func(outbox.Stats) float64) {
		problems = append(problems, to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			stats, _ := w.get()
			return value(stats)
		})))
	}
	counter := func(name, help string, labels prometheus.Labels, value func(outbox.Counts) int64) {
		problems = append(problems, to.Register(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 {
			return float64(value(w.relay.Counts()))
		})))
	}
	const rows, rowsHelp = "forgequeue_relay_rows", "Rows of the outbox that are not sent yet, by state, counted about every 10 s by every relay: use max()."
	gauge(rows, rowsHelp, prometheus.Labels{"state": "waiting"}, func(s outbox.Stats) float64 { return float64(s.Waiting) })
	gauge(rows, rowsHelp, prometheus.Labels{"state": "sending"}, func(s outbox.Stats) float64 { return float64(s.Sending) })
	gauge(rows, rowsHelp, prometheus.Labels{"state": "failed"}, func(s outbox.Stats) float64 { return float64(s.Failed) })
	gauge("forgequeue_relay_oldest_row_seconds", "Age of the oldest row that waits or is being sent; 0 without one.", nil, func(s outbox.Stats) float64 { return s.Oldest.Seconds() })
	problems = append(problems, to.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "forgequeue_relay_database_up", Help: "1 if the outbox could be read last time, else 0: then the numbers of rows are old.",
	}, func() float64 {
		if _, read := w.get(); read {
			return 1
		}
		return 0
	})))
	const handled, handledHelp = "forgequeue_relay_handled_rows_total", "Rows that this relay has handled: sent, failed (refused permanently), postponed (refused for now)."
	counter(handled, handledHelp, prometheus.Labels{"outcome": "sent"}, func(c outbox.Counts) int64 { return c.Sent })
	counter(handled, handledHelp, prometheus.Labels{"outcome": "failed"}, func(c outbox.Counts) int64 { return c.Failed })
	counter(handled, handledHelp, prometheus.Labels{"outcome": "postponed"}, func(c outbox.Counts) int64 { return c.Postponed })
	counter("forgequeue_relay_requests_total", "Requests of this relay that the server has answered row by row.", nil, func(c outbox.Counts) int64 { return c.Requests })
	counter("forgequeue_relay_errors_total", "Requests without such an answer, and statements that failed; the relay repeats them.", nil, func(c outbox.Counts) int64 { return c.Errors })
	return errors.Join(problems...)
}
