package view

import (
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Kinds of a span of a job's life, besides those of api.Attempt.
const (
	SpanWaited  = "waited"
	SpanBackoff = "backoff"
	// SpanDead is from a death to the redrive.
	SpanDead = "dead"
	// SpanUnclear has a death, a redrive or both at instants that are not known: the job was dead or waited.
	SpanUnclear = "unclear"
	// SpanNoAttempt is the same before the first attempt that is known: earlier ones may no longer be kept.
	SpanNoAttempt = "no_attempt"
	// SpanHidden has attempts that are not listed.
	SpanHidden = "hidden"
)

// TimelineWidth is the width of a timeline in its own units.
const TimelineWidth = 1000

// leastWidth keeps a short span visible, in the same units.
const leastWidth = 5

// Span is a part of a job's life.
type Span struct {
	// Kind is one of those above, or how the attempt went.
	Kind string
	// Attempt is 0 for the times between attempts.
	Attempt int
	// Name is the attempt's number, with the redrive that it followed; empty for the times between attempts.
	Name     string
	From, To time.Time
	// Open says that it has not ended.
	Open bool
	// X and Width are to scale, but for spans that would not be seen.
	X, Width float64
}

// Took is how long it lasted.
func (s Span) Took() string { return Duration(s.To.Sub(s.From)) }

// Timeline is a job's time from its submission on, to scale.
type Timeline struct {
	// Lives has the first life, and one for each redrive that is known of.
	Lives    []Life
	From, To time.Time
	byEpoch  map[int64]int // index into Lives
}

// Took is how long all of it lasted.
func (t *Timeline) Took() string { return Duration(t.To.Sub(t.From)) }

// Spans are those of all lives.
func (t *Timeline) Spans() []Span {
	var all []Span
	for _, life := range t.Lives {
		all = append(all, life.Spans...)
	}
	return all
}

// AttemptName is the number of an attempt, with the redrive that it followed.
func (t *Timeline) AttemptName(a api.Attempt) string {
	return t.Lives[t.byEpoch[a.Epoch]].attemptName(a.Attempt)
}

// NewTimeline draws what happened to a job until now, or until its end.
func NewTimeline(h *History, now time.Time) *Timeline {
	t := &Timeline{From: h.Job.CreatedAt.Time, To: now, Lives: []Life{{}}, byEpoch: map[int64]int{}}
	ended := h.Job.FinishedAt != nil
	if ended {
		t.To = h.Job.FinishedAt.Time
	}
	known := h.redrives()
	at := t.From
	var before *api.Attempt
	for i := range h.Attempts {
		one := &h.Attempts[i]
		if one.StartedAt == nil || one.StartedAt.Before(at) && one.EndedAt == nil && i < len(h.Attempts)-1 {
			continue
		}
		at = t.gap(gap{from: at, to: one.StartedAt.Time, after: before, redriven: h.restarts(i) || before == nil && h.redrivenFirst()}, known)
		before = one
		t.byEpoch[one.Epoch] = len(t.Lives) - 1
		span := Span{Kind: one.Kind, Attempt: one.Attempt, From: at, To: t.To, Open: one.EndedAt == nil && !ended}
		if one.EndedAt != nil {
			span.To = one.EndedAt.Time
		}
		t.add(span)
		at = later(at, span.To)
	}
	if t.To.After(at) {
		if h.More {
			t.add(Span{Kind: SpanHidden, From: at, To: t.To})
		} else {
			t.gap(gap{from: at, to: t.To, after: before, redriven: h.redrivenSince()}, known)
		}
		if !ended {
			t.leaveOpen()
		}
	}
	t.number(h.Job.Redrives)
	t.scale()
	return t
}

// leaveOpen says of the last span that it has not ended.
func (t *Timeline) leaveOpen() {
	for i := range slices.Backward(t.Lives) {
		if spans := t.Lives[i].Spans; len(spans) > 0 {
			spans[len(spans)-1].Open = true
			return
		}
	}
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
		life := &t.Lives[len(t.Lives)-1]
		life.Spans = append(life.Spans, s)
	}
}

// scale gives each span its width: its share of the time, and at least what can be seen.
func (t *Timeline) scale() {
	total := t.To.Sub(t.From).Seconds()
	free, most := float64(TimelineWidth), 0.0
	var all []*Span
	for i := range t.Lives {
		for n := range t.Lives[i].Spans {
			all = append(all, &t.Lives[i].Spans[n])
		}
	}
	for _, s := range all {
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
	for _, s := range all {
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
