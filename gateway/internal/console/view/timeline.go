package view

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Kinds of a span of a job's life, besides those of api.Attempt.
const (
	SpanWaited  = "waited"
	SpanBackoff = "backoff"
	SpanDead    = "dead"
)

// TimelineWidth is the width of a timeline in its own units.
const TimelineWidth = 1000

// leastWidth keeps a short span visible, in the same units.
const leastWidth = 5

// Span is a part of a job's life.
type Span struct {
	// Kind is waited, backoff, dead, or how the attempt went.
	Kind string
	// Attempt is 0 for the times between attempts; after a redrive attempts are counted anew.
	Attempt int
	// Redrive numbers the redrive that began this part of the job's life, 0 for none.
	Redrive  int
	From, To time.Time
	// Open says that it has not ended.
	Open bool
	// X and Width are to scale, but for spans that would not be seen.
	X, Width float64
}

// Took is how long it lasted.
func (s Span) Took() string { return Duration(s.To.Sub(s.From)) }

// Timeline is a job's life to scale.
type Timeline struct {
	Spans    []Span
	From, To time.Time
	redrives int
}

// Redriven is when a dead letter was queued again, and by whom.
type Redriven struct {
	At time.Time
	By string
}

// Lives numbers the redrive before each attempt, 0 for none: attempts are counted anew after it.
func Lives(attempts []api.Attempt) []int {
	lives := make([]int, len(attempts))
	for i := 1; i < len(attempts); i++ {
		if lives[i] = lives[i-1]; attempts[i].Attempt <= attempts[i-1].Attempt {
			lives[i]++
		}
	}
	return lives
}

// Took is how long all of it lasted.
func (t *Timeline) Took() string { return Duration(t.To.Sub(t.From)) }

// NewTimeline draws a job's life until now, or until its end, from its attempts in the order of their epochs and the
// redrives that are known.
func NewTimeline(job *api.JobSummary, attempts []api.Attempt, redriven []Redriven, now time.Time) *Timeline {
	t := &Timeline{From: job.CreatedAt.Time, To: now}
	ended := job.FinishedAt != nil
	if ended {
		t.To = job.FinishedAt.Time
	}
	at := t.From
	var ready *api.Time // until when the last failure backs off
	lives := Lives(attempts)
	for i := range attempts {
		one := &attempts[i]
		if one.StartedAt == nil || one.StartedAt.Before(at) && one.EndedAt == nil && i < len(attempts)-1 {
			continue
		}
		if lives[i] > t.redrives {
			at = t.dead(at, one.StartedAt.Time, lives[i], redriven)
			ready = nil
		}
		at = t.wait(at, one.StartedAt.Time, ready)
		ready = one.NextRunAt
		if one.EndedAt == nil {
			t.add(Span{Kind: one.Kind, Attempt: one.Attempt, From: at, To: t.To, Open: !ended})
			at = t.To
			continue
		}
		t.add(Span{Kind: one.Kind, Attempt: one.Attempt, From: at, To: one.EndedAt.Time})
		at = later(at, one.EndedAt.Time)
	}
	if t.To.After(at) {
		if len(attempts) > 0 && job.Redrives > t.redrives { // and no attempt since
			at = t.dead(at, t.To, job.Redrives, redriven)
			ready = nil
		}
		t.wait(at, t.To, ready)
		if last := len(t.Spans) - 1; last >= 0 && !ended {
			t.Spans[last].Open = true
		}
	}
	t.scale()
	return t
}

// dead adds the time in which the job was a dead letter: until the redrive, or where that is not known until it started again.
func (t *Timeline) dead(from, to time.Time, redrive int, redriven []Redriven) time.Time {
	until := to
	for _, one := range redriven {
		if !one.At.Before(from) && !one.At.After(to) {
			until = one.At
			break
		}
	}
	t.add(Span{Kind: SpanDead, From: from, To: until})
	t.redrives = redrive
	return later(from, until)
}

// wait adds the time between two attempts: the backoff, and what came after it.
func (t *Timeline) wait(from, to time.Time, ready *api.Time) time.Time {
	if ready != nil && ready.After(from) {
		until := ready.Time
		if until.After(to) {
			until = to
		}
		t.add(Span{Kind: SpanBackoff, From: from, To: until})
		from = later(from, until)
	}
	t.add(Span{Kind: SpanWaited, From: from, To: to})
	return later(from, to)
}

// add leaves out what took no time, attempts aside.
func (t *Timeline) add(s Span) {
	if s.To.Before(s.From) {
		s.To = s.From
	}
	s.Redrive = t.redrives
	if s.Attempt > 0 || s.To.After(s.From) {
		t.Spans = append(t.Spans, s)
	}
}

// scale gives each span its width: its share of the time, and at least what can be seen.
func (t *Timeline) scale() {
	total := t.To.Sub(t.From).Seconds()
	free, most := float64(TimelineWidth), 0.0
	for i := range t.Spans {
		s := &t.Spans[i]
		if total > 0 {
			s.Width = s.To.Sub(s.From).Seconds() / total * TimelineWidth
		}
		if s.Width < leastWidth {
			s.Width = leastWidth
			free -= leastWidth
		} else {
			most += s.Width
		}
	}
	x := 0.0
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Width > leastWidth && most > 0 { // the wide ones share what is left
			s.Width = max(s.Width/most*free, leastWidth)
		}
		s.X = x
		x += s.Width
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
