package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Schedules counts the ticks of schedules.
type Schedules struct {
	Ticks   prometheus.Counter
	Skipped *prometheus.CounterVec // reason
	Missed  prometheus.Counter
	Late    prometheus.Histogram
}

func newSchedules(m maker) *Schedules {
	return &Schedules{
		Ticks: m.counter("schedule_ticks_total", "Ticks of schedules that were processed, including those without a job."),
		Skipped: m.counters("schedule_ticks_skipped_total", "Ticks that got no job at first, by reason; one that a cap refused is tried again.", "reason",
			api.SkippedOverlap, api.SkippedPaused, api.SkippedCap, api.SkippedWindow),
		Missed: m.counter("schedule_ticks_missed_total",
			"Ticks that were more than a minute late and were dropped by catch_up; after a long outage at most 1000 are counted for each schedule."),
		Late: m.seconds("schedule_late_seconds", "From a tick to its job's submit."),
	}
}
