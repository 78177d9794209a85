// Package timing has when the ticks of schedules and the windows of queues are: pure, without SQL and without a clock.
//
//	timing.go            an interval, or a cron expression in a zone, between two bounds
//	cron.go  zone.go     reads and checks a cron expression; walls and instants of a zone
//	windows.go           recurring times, each from a tick on
package timing

import (
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Ticks says when the ticks of a schedule are. It has no state and no clock.
type Ticks struct {
	ticker
	// starts and ends bound the ticks, both inclusive; nil for no bound.
	starts, ends *time.Time
}

// ticker is an endless series of instants.
type ticker interface {
	// after gives the first tick after an instant.
	after(at time.Time) (time.Time, bool)
	// backwards gives ticks at or before an instant, the newest first, until yield says no more.
	backwards(at time.Time, yield func(time.Time) bool)
}

// New reads when the ticks of a schedule that is asked for are. made is when the schedule was made:
// intervals count from there unless they have a start. The error is a problem that names the field.
func New(r *api.ScheduleRequest, made time.Time) (*Ticks, error) {
	if r.Cron != nil {
		if err := checkCron(*r.Cron); err != nil {
			return nil, invalid("cron", "%s", err)
		}
	}
	return Stored(r, made)
}

// Stored is New for what is stored: an expression is read as it was when it was stored.
func Stored(r *api.ScheduleRequest, made time.Time) (*Ticks, error) {
	timing := &Ticks{}
	if r.StartsAt != nil {
		timing.starts = &r.StartsAt.Time
	}
	if r.EndsAt != nil {
		timing.ends = &r.EndsAt.Time
	}
	zone, err := loadZone(r.Timezone)
	if err != nil {
		return nil, invalid("timezone", "must be a name of the IANA database, such as Europe/Berlin")
	}
	if r.EveryMS != nil {
		timing.ticker = interval{anchor: made, every: time.Duration(*r.EveryMS) * time.Millisecond}
		if timing.starts != nil {
			timing.ticker = interval{anchor: *timing.starts, every: time.Duration(*r.EveryMS) * time.Millisecond}
		}
		return timing, nil
	}
	spec, err := parseCron(*r.Cron)
	if err != nil {
		return nil, invalid("cron", "%s", err)
	}
	spec.Location = time.UTC // of walls
	if spec.Next(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, invalid("cron", "never comes: there is no such day")
	}
	timing.ticker = wallClock{spec, zone}
	return timing, nil
}

// Next gives the first tick after an instant; none where the schedule has ended.
func (t *Ticks) Next(at time.Time) (time.Time, bool) {
	if t.starts != nil && at.Before(*t.starts) {
		at = t.starts.Add(-1)
	}
	next, ok := t.after(at)
	return next, ok && (t.ends == nil || !next.After(*t.ends))
}

// Newest gives the ticks between two instants, both inclusive, in order: the newest of them, at most
// most.
func (t *Ticks) Newest(from, to time.Time, most int) []time.Time {
	if t.starts != nil && from.Before(*t.starts) {
		from = *t.starts
	}
	if t.ends != nil && to.After(*t.ends) {
		to = *t.ends
	}
	var found []time.Time
	t.backwards(to, func(tick time.Time) bool {
		if tick.Before(from) || len(found) == most {
			return false
		}
		found = append(found, tick)
		return true
	})
	slices.Reverse(found)
	return found
}

// interval has a tick at the anchor and at each multiple of every after it.
type interval struct {
	anchor time.Time
	every  time.Duration
}

func (i interval) after(at time.Time) (time.Time, bool) {
	if at.Before(i.anchor) {
		return i.anchor, true
	}
	elapsed := at.Sub(i.anchor)
	return at.Add(i.every - elapsed%i.every), true
}

func (i interval) backwards(at time.Time, yield func(time.Time) bool) {
	if at.Before(i.anchor) {
		return
	}
	for tick := at.Add(-(at.Sub(i.anchor) % i.every)); !tick.Before(i.anchor) && yield(tick); {
		tick = tick.Add(-i.every)
	}
}
