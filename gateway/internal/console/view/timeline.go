package view

import (
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Kinds of a span of a job's life, besides those of api.Attempt.
const (
	SpanWaited  = "waited"
	SpanBackoff = "backoff"
)

// TimelineWidth is the width of a timeline in its own units.
const TimelineWidth = 1000

// leastWidth keeps a short span visible, in the same units.
const leastWidth = 5

// Span is a part of a job's life.
type Span struct {
	// Kind is waited, backoff, or how the attempt went.
	Kind string
	// Attempt is 0 for the times between attempts.
	Attempt  int
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
}

// Took is how long all of it lasted.
func (t *Timeline) Took() string { return Duration(t.To.Sub(t.From)) }

// NewTimeline draws a job's life until now, or until its end, from its attempts in the order of their epochs.
func NewTimeline(job *api.JobSummary, attempts []api.Attempt, now time.Time) *Timeline {
	t := &Timeline{From: job.CreatedAt.Time, To: now}
	ended := job.FinishedAt != nil
	if ended {
		t.To = job.FinishedAt.Time
	}
	at := t.From
	var ready *api.Time // until when the last failure backs off
	for i := range attempts {
		one := &attempts[i]
		if one.StartedAt == nil || one.StartedAt.Before(at) && one.EndedAt == nil && i < len(attempts)-1 {
			continue
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
		t.wait(at, t.To, ready)
		if last := len(t.Spans) - 1; last >= 0 && !ended {
			t.Spans[last].Open = true
		}
	}
	t.scale()
	return t
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
