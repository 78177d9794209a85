package stats

import (
	"math"
	"time"
)

const (
	// shortSpan and longSpan are the time constants of the averages: the short one where there are starts enough.
	shortSpan = 15 * time.Second
	longSpan  = 4 * time.Minute
	// enough is how many intervals the short average needs.
	enough = 4
	// interval is the least length of an interval: starts that are closer together count as one event.
	interval = time.Second
	// quiet is the least time without a start after which the rate is unknown.
	quiet = 15 * time.Second
	// leastBusy is the least time with a backlog, in seconds, from which the pace of a line is known.
	leastBusy = 0.5
)

// meter is a decaying average of the starts of one stream of jobs, over whole intervals from start to start: jobs that
// come 500 at a time every ten seconds are 50 a second at any moment. It is memory only, and the time is passed in.
type meter struct {
	begun bool
	// last is the last start, closed the end of the last interval.
	last, closed time.Time
	// open is the interval since closed.
	open sums
	// spans are the averages over shortSpan and longSpan.
	spans [2]sums
	// longest is the longest time between two starts while jobs waited; it decays.
	longest float64
	// backlog says that jobs waited after the last start.
	backlog bool
}

// sums are decaying sums; times in seconds. busy is the time in which jobs waited.
type sums struct{ starts, intervals, wall, busy float64 }

func (s *sums) decay(by float64) {
	s.starts, s.intervals, s.wall, s.busy = s.starts*by, s.intervals*by, s.wall*by, s.busy*by
}

// decayed is what is left after some time of the short (0) or the long average.
func decayed(which int, after time.Duration) float64 {
	return math.Exp(-float64(max(after, 0)) / float64([...]time.Duration{shortSpan, longSpan}[which]))
}

// started adds n jobs that start now, of which the first had waited that long. The first call only begins the first
// interval.
func (m *meter) started(now time.Time, n int64, waited time.Duration) {
	if !m.begun {
		*m = meter{begun: true, last: now, closed: now}
		return
	}
	gap := now.Sub(m.last).Seconds()
	busy := gap
	if !m.backlog {
		busy = min(gap, max(waited.Seconds(), 0))
	}
	if busy > m.limit() { // what was before a pause says nothing about now
		*m = meter{begun: true, last: now, closed: now, longest: min(busy, longSpan.Seconds())}
		return
	}
	m.longest = max(m.longest*math.Exp(-gap/longSpan.Seconds()), busy)
	m.last = now
	m.open.starts += float64(n)
	m.open.busy += busy
	length := now.Sub(m.closed)
	if length < interval {
		return
	}
	for i := range m.spans {
		s := &m.spans[i]
		s.decay(decayed(i, length))
		s.starts += m.open.starts
		s.busy += m.open.busy
		s.wall += length.Seconds()
		s.intervals++
	}
	m.open, m.closed = sums{}, now
}

// limit is how long there may be no start, in seconds, before the rate is unknown.
func (m *meter) limit() float64 { return max(quiet.Seconds(), 2*m.longest) }

// which is the average to use.
func (m *meter) which() int {
	if m.spans[0].intervals >= enough {
		return 0
	}
	return 1
}

// Pace is how fast jobs start; the zero value where that is not known.
type Pace struct {
	// PerSecond counts all time. Busy is the part of it in which jobs waited; 0 where there was no backlog for long enough.
	PerSecond, Busy float64
}

// pace gives the average; the zero value where it is too early, or nothing has started for too long.
func (m *meter) pace(now time.Time) Pace {
	used := m.spans[m.which()]
	gap := max(now.Sub(m.last).Seconds(), 0)
	if used.intervals == 0 || gap > m.limit() {
		return Pace{}
	}
	// the usual time between two starts is part of the average already
	late := max(gap-used.wall/used.intervals, 0)
	wall, busy := used.wall+late, used.busy
	if m.backlog {
		busy += late
	}
	if busy < leastBusy {
		busy = 0
	}
	return Pace{PerSecond: used.starts / wall, Busy: min(busy/wall, 1)}
}

// with is the pace of two cores, or of two lanes: both rates, and the mean of their busy parts by rate.
func (p Pace) with(other Pace) Pace {
	all := Pace{PerSecond: p.PerSecond + other.PerSecond}
	if all.PerSecond > 0 {
		all.Busy = (p.Busy*p.PerSecond + other.Busy*other.PerSecond) / all.PerSecond
	}
	return all
}

// line is the rate while jobs wait; 0 where it is not known.
func (p Pace) line() float64 {
	if p.Busy == 0 {
		return 0
	}
	return p.PerSecond / p.Busy
}
