// Package scale says how many slots of workers a queue needs.
//
// By Little's law a queue keeps arrivals × run time slots busy. To have a backlog gone within the target takes as many more as it has seconds
// of work in each second of the target:
//
//	slots = arrivals × run time + queued × run time ÷ target
//
// The second part also corrects what the first gets wrong: with too few slots the backlog grows until it makes up for them. A busy queue
// without a backlog keeps its slots by the first part, and by what runs.
package scale

import (
	"fmt"
	"math"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// unknownRun stands for the run time of jobs of which none has ended.
const unknownRun = time.Second

// Minute is what jobs of a queue did in a minute.
type Minute struct {
	Submitted int64
	// Ended are jobs, Ran is how long their attempts ran, failed ones too.
	Ended int64
	Ran   time.Duration
}

// Facts are what is known of a queue.
type Facts struct {
	// Minutes are the last ones, the newest last, of which Open is the part that has passed.
	Minutes []Minute
	Open    time.Duration
	// Day is the sum of the last day.
	Day             Minute
	Queued, Running int64
	// Tick: a schedule submits a job within the time that a worker takes to start.
	Tick bool
	// Stopped: no job of the queue starts until then, longer than a worker takes to start.
	Stopped bool
}

// arrivals is the rate of the last minute, or of the last five, whichever is higher: it rises at once, and falls slowly.
func (f *Facts) arrivals() (perSecond float64) {
	if len(f.Minutes) == 0 {
		return 0
	}
	for _, most := range []int{1, 5} {
		jobs, length := int64(0), f.Open
		for i := range min(most+1, len(f.Minutes)) {
			if jobs += f.Minutes[len(f.Minutes)-1-i].Submitted; i > 0 {
				length += time.Minute
			}
		}
		if length > 0 {
			perSecond = max(perSecond, float64(jobs)/length.Seconds())
		}
	}
	return perSecond
}

// run is how long a job runs; false where no job has ended.
func (f *Facts) run() (time.Duration, bool) {
	var sum Minute
	for _, m := range f.Minutes {
		sum.Ended, sum.Ran = sum.Ended+m.Ended, sum.Ran+m.Ran
	}
	if sum.Ended == 0 {
		sum = f.Day
	}
	if sum.Ended == 0 {
		return unknownRun, false
	}
	return sum.Ran / time.Duration(sum.Ended), true
}

// Of gives the slots that a queue needs.
func Of(f *Facts, target time.Duration) api.Scale {
	arrivals := f.arrivals()
	run, known := f.run()
	busy, backlog := arrivals*run.Seconds(), float64(f.Queued)*run.Seconds()/max(target, time.Millisecond).Seconds()
	made := api.Scale{DesiredSlots: int64(math.Ceil(busy + backlog)), Running: f.Running, Queued: f.Queued, ArrivalsPerSecond: round(arrivals)}
	of := "a second, since no job has ended yet"
	if known {
		made.MeanRunMS, of = new(round(float64(run)/float64(time.Millisecond))), fmt.Sprintf("%.3g s", run.Seconds())
	}
	made.Because = fmt.Sprintf("%.3g jobs arrive in a second and run for %s: %.3g slots; the %d that are queued within %.3g s: %.3g more", arrivals, of, busy, f.Queued, target.Seconds(), backlog)
	switch {
	case f.Stopped:
		made.DesiredSlots, made.Because = f.Running, fmt.Sprintf("the queue is paused, or in one of its windows; %d jobs run", f.Running)
	case made.DesiredSlots < f.Running:
		made.DesiredSlots, made.Because = f.Running, made.Because+fmt.Sprintf("; %d jobs run", f.Running)
	case made.DesiredSlots == 0 && f.Tick:
		made.DesiredSlots, made.Because = 1, made.Because+"; a schedule submits a job soon"
	}
	return made
}

func round(value float64) float64 { return math.Round(value*1000) / 1000 }
