package schedule

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/timing"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// missedAfter is how late a tick may be before catch_up decides about it: a restart, a failover
	// or much work lose none.
	missedAfter = time.Minute
	// missedCounted bounds the missed ticks that are counted, for the metric only.
	missedCounted = 1000
)

// state is how far a schedule has been worked off.
type state struct {
	// next is the first tick that is not worked off.
	next time.Time
	// owed: ticks up to here are made, however late; nil for none.
	owed *time.Time
}

// plan is which ticks to work off now, and the state after it.
type plan struct {
	ticks []time.Time
	// next is nil where no tick is left; it may lie in the past, where there are more than most.
	next *time.Time
	owed *time.Time
	// missed counts the ticks that are left out.
	missed int
}

// planTicks decides at an instant which ticks of a due schedule to work off, in order, at most most.
func planTicks(times *timing.Ticks, s state, now time.Time, catchUp string, catchUpMax, most int) plan {
	made := plan{owed: s.owed}
	from := s.next
	owes := s.owed != nil && !s.next.After(*s.owed)
	if !owes && now.Sub(s.next) > missedAfter {
		keep := 0
		switch catchUp {
		case api.CatchUpLatest:
			keep = 1
		case api.CatchUpAll:
			keep = catchUpMax
		case api.CatchUpNone:
		}
		due := times.Newest(s.next, now, max(keep, missedCounted))
		kept := due[max(len(due)-keep, 0):]
		made.missed = len(due) - len(kept)
		if len(kept) == 0 {
			made.next = nextAfter(times, now)
			return made
		}
		from, made.owed = kept[0], &kept[len(kept)-1]
	}
	for tick, ok := from, true; ok; tick, ok = times.Next(tick) {
		if tick.After(now) || len(made.ticks) == most {
			made.next = &tick
			break
		}
		made.ticks = append(made.ticks, tick)
	}
	return made
}

func nextAfter(times *timing.Ticks, at time.Time) *time.Time {
	if next, ok := times.Next(at); ok {
		return &next
	}
	return nil
}

// retryWait is how long to wait until a refused tick is tried again: the longer the older it is.
func retryWait(tick, now time.Time) time.Duration {
	const shortest, longest = time.Second, 30 * time.Second
	return min(max(now.Sub(tick)/8, shortest), longest)
}
