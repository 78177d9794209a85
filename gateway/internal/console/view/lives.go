package view

import (
	"slices"
	"strconv"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

// History is what is known of a job.
type History struct {
	Job *api.JobSummary
	// Attempts are in the order of their epochs; More says that there are later ones.
	Attempts []api.Attempt
	More     bool
	// Redrives are those whose time is known: of a redrive by filter the API tells none.
	Redrives []Redriven
}

// Redriven is when a dead letter was queued again, and by whom.
type Redriven struct {
	At time.Time
	// By is empty where it is not known.
	By string
}

// Life is a job's time from its submission, or from a redrive, to the next redrive.
type Life struct {
	// Number is 0 for the first life, n for the one after redrive n, and -1 after a redrive whose number is not known.
	Number int
	// Redrive is the one that it began with; nil where its time is not known.
	Redrive *Redriven
	Spans   []Span
}

// Redriven says that it began with a redrive.
func (l Life) Redriven() bool { return l.Number != 0 }

// Name is that of the redrive that it began with.
func (l Life) Name() string {
	if l.Number < 0 {
		return "Redriven"
	}
	return "Redrive " + strconv.Itoa(l.Number)
}

func (l Life) attemptName(attempt int) string {
	switch n := strconv.Itoa(attempt); {
	case l.Number < 0:
		return "After a redrive, attempt " + n
	case l.Number > 0:
		return l.Name() + ", attempt " + n
	default:
		return "Attempt " + n
	}
}

// sameRedrive is how far apart two reports of one redrive are at most: the audit log has the time of its transaction, a
// job that of a statement.
const sameRedrive = time.Second

// redrivesKnown are those whose time is known, in their order.
type redrivesKnown struct {
	all []Redriven
	// complete says that these are all, unplaced that some may have come where no attempt shows them.
	complete, unplaced bool
}

func (h *History) redrives() redrivesKnown {
	all := slices.Clone(h.Redrives)
	if at, ok := h.queuedAgain(); ok && !slices.ContainsFunc(all, func(r Redriven) bool { return at.Sub(r.At).Abs() < sameRedrive }) {
		all = append(all, Redriven{At: at})
	}
	slices.SortFunc(all, func(a, b Redriven) int { return a.At.Compare(b.At) })
	return redrivesKnown{all, len(all) == h.Job.Redrives, h.toldOf() != h.Job.Redrives}
}

// within are those from one instant to another.
func (k *redrivesKnown) within(from, to time.Time) []Redriven {
	var found []Redriven
	for _, one := range k.all {
		if !one.At.Before(from) && !one.At.After(to) {
			found = append(found, one)
		}
	}
	return found
}

// gap is a time in which the job did not run.
type gap struct {
	from, to time.Time
	// after is the attempt before it; nil where none is known.
	after *api.Attempt
	// redriven says that the attempts tell of a redrive in it.
	redriven bool
}

// died says that the attempt before it was the last one of its life.
func (g *gap) died() bool { return g.after != nil && g.after.NextRunAt == nil }

// gap adds the time between two attempts, with what is known of deaths and redrives in it, and gives its end.
func (t *Timeline) gap(g gap, known redrivesKnown) time.Time {
	var ready *api.Time // until when the last failure backs off
	if g.after != nil {
		ready = g.after.NextRunAt
	}
	found := known.within(g.from, g.to)
	hidden := known.unplaced && !known.complete && (g.redriven || g.after == nil) // it may have a redrive that is not known
	if len(found) == 0 && !g.redriven && !hidden {
		return t.wait(g.from, g.to, ready)
	}
	unclear := SpanUnclear
	if g.after == nil {
		unclear = SpanNoAttempt
	}
	at := g.from
	for i := range found {
		kind := unclear
		if i == 0 && g.died() && !hidden {
			kind = SpanDead
		}
		t.add(Span{Kind: kind, From: at, To: found[i].At})
		t.begin(&found[i])
		at, unclear = found[i].At, SpanUnclear
	}
	switch {
	case len(found) == 0:
		t.add(Span{Kind: unclear, From: at, To: g.to})
		if g.redriven {
			t.begin(nil)
		}
	case hidden:
		t.add(Span{Kind: SpanUnclear, From: at, To: g.to})
	default:
		t.wait(at, g.to, nil)
	}
	return later(g.from, g.to)
}

// begin begins a life with a redrive, nil for one of which the time is not known.
func (t *Timeline) begin(with *Redriven) { t.Lives = append(t.Lives, Life{Number: -1, Redrive: with}) }

// number numbers the lives, where all are there, and names their attempts.
func (t *Timeline) number(redrives int) {
	all := len(t.Lives)-1 == redrives
	for i := range t.Lives {
		life := &t.Lives[i]
		if all {
			life.Number = i
		}
		for n := range life.Spans {
			if s := &life.Spans[n]; s.Attempt > 0 {
				s.Name = life.attemptName(s.Attempt)
			}
		}
	}
}

// queuedAgain is when the last redrive queued the job, where the job still tells: a redrive sets run_at and keeps the
// epoch. Retries, snoozes, probes and jobs that it waits for set run_at later.
func (h *History) queuedAgain() (at time.Time, ok bool) {
	job := h.Job
	if job.Redrives == 0 || h.More || job.RunAt == nil || job.Workflow != nil || len(job.After) > 0 || len(h.Attempts) == 0 {
		return at, false
	}
	last := len(h.Attempts) - 1 // of the life before
	epoch, until := job.Epoch, job.RunAt
	switch {
	case h.restarts(last) && h.Attempts[last].NextRunAt == nil: // the first lease since, with the next epoch
		epoch, until = h.Attempts[last].Epoch-1, h.Attempts[last].StartedAt
		last--
	case !h.redrivenSince():
		return at, false
	}
	died := &h.Attempts[last]
	if died.Epoch != epoch || died.EndedAt == nil || until == nil || job.RunAt.Before(died.EndedAt.Time) || job.RunAt.After(until.Time) {
		return at, false
	}
	return job.RunAt.Time, true
}

// restarts says whether a redrive came before an attempt: they count from 1 again.
func (h *History) restarts(attempt int) bool {
	return h.Job.Redrives > 0 && attempt > 0 && h.Attempts[attempt].Attempt <= h.Attempts[attempt-1].Attempt
}

// redrivenSince says whether a redrive came after the last attempt.
func (h *History) redrivenSince() bool {
	if h.Job.Redrives == 0 || h.More {
		return false
	}
	return len(h.Attempts) == 0 || h.Job.Attempt < h.Attempts[len(h.Attempts)-1].Attempt
}

// toldOf is how many redrives the attempts tell of.
func (h *History) toldOf() int {
	told := 0
	for i := range h.Attempts {
		if h.restarts(i) {
			told++
		}
	}
	if h.redrivenSince() {
		told++
	}
	return told
}

// redrivenFirst says whether a redrive came before the first attempt that is known.
func (h *History) redrivenFirst() bool {
	return h.Job.Redrives > 0 && !h.More && len(h.Attempts) > 0 && h.toldOf() == 0
}
