package scale_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/scale"
)

const target = 30 * time.Second

// The parts of the number, alone.
func TestSlots(t *testing.T) {
	t.Parallel()
	hour := func(submitted, ended int64, ran time.Duration) []scale.Minute {
		return slices.Repeat([]scale.Minute{{Submitted: submitted, Ended: ended, Ran: time.Duration(ended) * ran}}, 60)
	}
	for name, test := range map[string]struct {
		facts scale.Facts
		want  int64
	}{
		"nothing":                         {scale.Facts{}, 0},
		"steady, without a backlog":       {scale.Facts{Minutes: hour(600, 600, 2*time.Second), Open: time.Minute}, 20},
		"a backlog":                       {scale.Facts{Minutes: hour(0, 600, 2*time.Second), Open: time.Minute, Queued: 300}, 20},
		"both":                            {scale.Facts{Minutes: hour(600, 600, 2*time.Second), Open: time.Minute, Queued: 300}, 40},
		"never below what runs":           {scale.Facts{Running: 7}, 7},
		"long jobs of which none ended":   {scale.Facts{Queued: 1, Running: 3}, 3},
		"one that waits, nothing ended":   {scale.Facts{Queued: 1}, 1},
		"few a day":                       {scale.Facts{Day: scale.Minute{Ended: 2, Ran: time.Hour}, Queued: 2}, 120},
		"a tick that is due soon":         {scale.Facts{Tick: true}, 1},
		"a queue that is stopped":         {scale.Facts{Stopped: true, Queued: 1000, Running: 2, Tick: true}, 2},
		"a tick beside jobs":              {scale.Facts{Tick: true, Running: 2}, 2},
		"a burst in the minute that runs": {scale.Facts{Minutes: append(hour(0, 0, 0), scale.Minute{Submitted: 100}), Open: time.Second, Day: scale.Minute{Ended: 1, Ran: time.Second}}, 2},
	} {
		if got := scale.Of(&test.facts, target); got.DesiredSlots != test.want {
			t.Errorf("%s: %+v, want %d", name, got, test.want)
		}
	}
}

// A day of a queue: nothing at night but a schedule at two, a burst in the morning, hours of steady full load without a backlog, a slow
// afternoon. An autoscaler asks each 15 seconds, and its workers take 20 to start.
func TestADay(t *testing.T) {
	t.Parallel()
	const tick, ask, cold, run = time.Second, 15, 20, 2 * time.Second
	random := rand.New(rand.NewPCG(1, 2))
	arrivals := func(second int) int {
		hour := second / 3600
		switch {
		case second == 2*3600:
			return 50
		case second == 8*3600:
			return 3000
		case hour >= 9 && hour < 13:
			return poisson(random, 10)
		case hour >= 14 && hour < 18:
			return poisson(random, 0.5)
		}
		return 0
	}
	type job struct{ at, ends int }
	var queued, running []job
	var minutes []scale.Minute
	var waits []int
	var asked [86400 + cold]int // slots, by when their workers are up
	slots, used, ideal, never := 0, 0.0, 0.0, 0
	for now := range 86400 {
		if now%60 == 0 {
			minutes = append(minutes, scale.Minute{})
		}
		minute := &minutes[len(minutes)-1]
		running = slices.DeleteFunc(running, func(j job) bool {
			if j.ends > now {
				return false
			}
			minute.Ended, minute.Ran = minute.Ended+1, minute.Ran+run
			return true
		})
		for range arrivals(now) {
			minute.Submitted++
			queued = append(queued, job{at: now})
		}
		if up := asked[now]; up > 0 {
			slots = max(slots, up)
		}
		for len(queued) > 0 && len(running) < slots {
			waits = append(waits, now-queued[0].at)
			running = append(running, job{ends: now + int(run/tick)})
			queued = queued[1:]
		}
		if now%ask == 0 {
			facts := scale.Facts{
				Minutes: minutes[max(len(minutes)-60, 0):], Open: time.Duration(now%60) * tick, Queued: int64(len(queued)), Running: int64(len(running)),
				Day: scale.Minute{Ended: 1, Ran: run}, Tick: now <= 2*3600 && now+2*cold >= 2*3600,
			}
			want := int(scale.Of(&facts, target).DesiredSlots)
			if want < slots {
				slots = want // those that are idle stop at once
			}
			asked[now+cold] = want
			if want == 0 && len(queued)+len(running) > 0 {
				never++
			}
		}
		used, ideal = used+float64(slots), ideal+float64(len(running))
	}
	slices.Sort(waits)
	p95, ratio := waits[len(waits)*95/100], used/ideal
	t.Logf("%d jobs, waits p50 %d s, p95 %d s, longest %d s; slots %.2f of what ran; %d times 0 while busy", len(waits), waits[len(waits)/2], p95, waits[len(waits)-1], ratio, never)
	if p95 > int(target/tick) || ratio > 1.2 || never > 0 || len(queued) > 0 {
		t.Error("the day went wrong")
	}
}

// poisson draws a count with a mean.
func poisson(random *rand.Rand, mean float64) int {
	n, left := 0, random.ExpFloat64()
	for left < mean {
		n++
		left += random.ExpFloat64()
	}
	return n
}
