package timing

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// Windows are recurring times, in which a queue or a schedule pauses. Nil is none.
type Windows struct {
	list []window
	// known is what was found last: it is asked at each claim.
	known atomic.Pointer[span]
}

type window struct {
	ticks *Ticks
	lasts time.Duration
}

// span is a time without a change: from and before to it is in a window, or in none.
type span struct {
	from, to time.Time
	in       bool
}

const (
	// looksAhead is how far a time in no window is looked ahead at once.
	looksAhead = 24 * time.Hour
	// mostJoined bounds how many windows that follow each other are taken for one.
	mostJoined = 100
)

// NewWindows reads windows that are asked for. The error is a problem that names the field.
func NewWindows(asked []api.Window) (*Windows, error) {
	for i := range asked {
		_, err := New(ticksOf(&asked[i]), time.Time{})
		if wrong, ok := problem.From(err); ok {
			for n := range wrong.Errors {
				wrong.Errors[n].Field = fmt.Sprintf("windows[%d].%s", i, wrong.Errors[n].Field)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return StoredWindows(asked), nil
}

func ticksOf(one *api.Window) *api.ScheduleRequest {
	return &api.ScheduleRequest{Cron: &one.Cron, Timezone: cmp.Or(one.Timezone, api.DefaultTimezone)}
}

// StoredWindows is NewWindows for what is stored. One whose time zone this core does not know is left out.
func StoredWindows(stored []api.Window) *Windows {
	var made *Windows
	for i := range stored {
		ticks, err := Stored(ticksOf(&stored[i]), time.Time{})
		if err != nil {
			continue
		}
		if made == nil {
			made = &Windows{}
		}
		made.list = append(made.list, window{ticks, time.Duration(stored[i].DurationMS) * time.Millisecond})
	}
	return made
}

// Until says whether an instant is in a window, and until when that stays so.
func (w *Windows) Until(at time.Time) (until time.Time, in bool) {
	if w == nil {
		return time.Time{}, false
	}
	at = at.Round(0) // by the clock on the wall, which may be set
	known := w.known.Load()
	if known == nil || at.Before(known.from) || !at.Before(known.to) {
		known = w.look(at)
		w.known.Store(known)
	}
	return known.to, known.in
}

// Ended is when the last window before an instant ended, if it is not in one; zero where none did within the time.
func (w *Windows) Ended(at time.Time, within time.Duration) (last time.Time) {
	if _, in := w.Until(at); w == nil || in {
		return time.Time{}
	}
	for i := range w.list {
		one := &w.list[i]
		if begun := one.ticks.Newest(at.Add(-one.lasts-within), at.Add(-one.lasts), 1); len(begun) > 0 && begun[0].Add(one.lasts).After(last) {
			last = begun[0].Add(one.lasts)
		}
	}
	return last
}

func (w *Windows) look(at time.Time) *span {
	end := at
	for joined, more := 0, true; more && joined < mostJoined; joined++ {
		more = false
		for i := range w.list {
			one := &w.list[i]
			if last := one.ticks.Newest(end.Add(1-one.lasts), end, 1); len(last) > 0 {
				end, more = last[0].Add(one.lasts), true
			}
		}
	}
	if end.After(at) {
		return &span{at, end, true}
	}
	next := at.Add(looksAhead)
	for i := range w.list {
		if tick, ok := w.list[i].ticks.Next(at); ok && tick.Before(next) {
			next = tick
		}
	}
	return &span{at, next, false}
}
