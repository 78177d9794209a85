package charts

import (
	"math"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Jobs draws what jobs did, and how long they waited and ran.
func Jobs(span string, items []api.StatsItem) []Chart {
	steps := make([]time.Time, len(items))
	for i := range items {
		steps[i] = items[i].At.Time
	}
	counts := newChart(span, "stats", "What jobs did", []string{"Submitted", "Completed", "Failed attempts"}, steps)
	counts.Heads = append(counts.Heads, "Dead")
	times := newChart(span, "times", "Time on average", []string{"Waited", "Ran"}, steps)
	times.Data.Unit = "s"
	for i := range items {
		one := &items[i]
		counts.set(i, new(float64(one.Submitted)), new(float64(one.Completed)), new(float64(one.FailedAttempts)))
		counts.row(one.At.Time, view.Number(one.Submitted), view.Number(one.Completed), view.Number(one.FailedAttempts), view.Number(one.DeadLetter))
		waited, ran := mean(one.WaitingMS, one.Started), mean(one.RunningMS, one.Completed+one.FailedAttempts)
		times.set(i, waited, ran)
		times.row(one.At.Time, secondsText(waited), secondsText(ran))
	}
	return []Chart{counts, times}
}

// mean is in seconds; nil for nothing.
func mean(ms, of int64) *float64 {
	if of <= 0 {
		return nil
	}
	return new(math.Round(float64(ms)/float64(of)) / 1000)
}

func secondsText(seconds *float64) string {
	if seconds == nil {
		return "—"
	}
	return view.Milliseconds(int64(*seconds * 1000))
}
