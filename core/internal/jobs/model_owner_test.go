package jobs_test

import (
	"errors"
	"slices"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/caps"
	"github.com/forgequeue/forgequeue/core/internal/deadletter"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// What a job's owner can do. Now and then another caller tries: another
// tenant, or another user of the same one.

type caller struct {
	tenant tenant.ID
	user   string
}

func (w *world) callerOf(t *rapid.T, j *modelJob) caller {
	switch rapid.IntRange(0, 9).Draw(t, "caller") {
	case 0:
		return caller{tenant: w.other(j.tenant)}
	case 1:
		return caller{j.tenant, "eve"}
	case 2:
		return caller{j.tenant, j.user}
	default:
		return caller{tenant: j.tenant}
	}
}

func (c caller) sees(j *modelJob) bool {
	return j != nil && j.state != discarded && j.tenant == c.tenant && (c.user == "" || c.user == j.user)
}

func (w *world) cancel(t *rapid.T) {
	w.cancelOne(t, w.one(t, func(*modelJob) bool { return true }))
}

func (w *world) cancelRunning(t *rapid.T) {
	w.cancelOne(t, w.one(t, (*modelJob).running))
}

func (w *world) cancelOne(t *rapid.T, j *modelJob) {
	who := w.callerOf(t, j)
	got, did, err := w.store().Jobs.Cancel(w.ctx, who.tenant, who.user, j.id)
	switch {
	case !who.sees(j):
		if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a stranger's cancel: %v", err)
		}
		return
	case j.state == "completed" || j.state == "dead_letter":
		if !errors.Is(err, jobs.ErrTerminal) {
			t.Fatalf("a cancel of a %s job: %v", j.state, err)
		}
		return
	case j.running():
		j.cancelRequested, j.changed = true, true
	case j.live():
		j.end("cancelled", "")
	}
	if err != nil || got.State != j.state || (did == jobs.CancelRequested) != j.running() || got.CancelRequested != j.cancelRequested {
		t.Fatalf("a cancel got %+v %v %v, want %s", got, did, err, j.state)
	}
}

// modelSignals are the names of signals.
var modelSignals = []string{"a", "b"}

func (w *world) signal(t *rapid.T) {
	j := w.one(t, func(*modelJob) bool { return true })
	if rapid.Bool().Draw(t, "waiting") {
		j = w.one(t, is("waiting"))
	}
	who, name := w.callerOf(t, j), rapid.SampledFrom(modelSignals).Draw(t, "name")
	got, err := w.store().Jobs.Signal(w.ctx, who.tenant, who.user, j.id, name, []byte(`{"n":1}`))
	w.tick++
	switch {
	case !who.sees(j):
		if !errors.Is(err, store.ErrNotFound) {
			t.Fatalf("a stranger's signal: %v", err)
		}
		return
	case !j.live():
		if !errors.Is(err, jobs.ErrTerminal) {
			t.Fatalf("a signal of a %s job: %v", j.state, err)
		}
		return
	}
	first := !slices.Contains(j.signals, name)
	if first {
		j.signals, j.changed = append(j.signals, name), true
	}
	woken := first && j.state == "waiting" && j.signalled()
	if woken {
		j.queue(w.tick)
	}
	if err != nil || got.First != first || (got.Woken != nil) != woken {
		t.Fatalf("the signal %s of a job that waits for %v got %+v %v, want first %v, woken %v", name, j.awaited, got, err, first, woken)
	}
}

// dead draws jobs for redrive and discard: mostly dead ones, some not, none at all.
func (w *world) dead(t *rapid.T) []uuid.UUID {
	var ids []uuid.UUID
	for _, j := range w.some(t, 3, is("dead_letter")) {
		ids = append(ids, j.id)
	}
	if rapid.IntRange(0, 4).Draw(t, "any") == 0 {
		ids = append(ids, w.one(t, func(*modelJob) bool { return true }).id)
	}
	switch rapid.IntRange(0, 9).Draw(t, "more") {
	case 0:
		ids = append(ids, uuid.New())
	case 1:
		ids = append(ids, ids[0])
	}
	return ids
}

func (w *world) redrive(t *rapid.T) {
	ids := w.dead(t)
	who := w.callerOf(t, w.jobs[ids[0]])
	var capsOf deadletter.CapsOf
	if rapid.Bool().Draw(t, "capped") {
		capsOf = func(name string, user *string) []caps.Cap { return w.activeCaps(t, who.tenant, name, user) }
	}
	got := w.store().DeadLetters.Redrive(w.ctx, who.tenant, who.user, ids, capsOf)
	want, tick := make([]error, len(ids)), w.tick+1
	for i, id := range ids {
		j := w.jobs[id]
		switch {
		case !who.sees(j):
			want[i] = store.ErrNotFound
		case j.state != "dead_letter":
			want[i] = deadletter.ErrNotDead
		case w.holder(j) != nil:
			want[i] = deadletter.ErrDedupeConflict
		default:
			j.rise(tick)
		}
	}
	w.tick = tick + len(ids)
	for i, id := range ids {
		j := w.jobs[id]
		if !errors.Is(got[i].Err, want[i]) {
			t.Fatalf("redrive of %s: %v, want %v", id, got[i].Err, want[i])
		}
		if want[i] == nil && (got[i].Ready.Lane != j.lane || got[i].Job.State != "queued" || int(got[i].Job.Epoch) != j.epoch || got[i].Job.Redrives != j.redrives) {
			t.Fatalf("redriven: %+v", got[i].Job)
		}
	}
	w.redriveOneByOne(ids, want, tick)
}

// redriveOneByOne: a refusal among them makes each be redriven alone, in order.
func (w *world) redriveOneByOne(ids []uuid.UUID, errs []error, tick int) {
	refused := false
	for _, err := range errs {
		refused = refused || errors.Is(err, deadletter.ErrDedupeConflict)
	}
	for i, id := range ids {
		if refused && errs[i] == nil {
			w.jobs[id].ready = tick + i
		}
	}
}

func (w *world) discard(t *rapid.T) {
	ids := w.dead(t)
	who := w.callerOf(t, w.jobs[ids[0]])
	got, err := w.store().DeadLetters.Discard(w.ctx, who.tenant, who.user, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		j := w.jobs[id]
		gone := who.sees(j) && j.state == "dead_letter"
		if !gone && got[id] && j != nil && j.state == discarded {
			continue // named twice
		}
		if got[id] != gone {
			t.Fatalf("discard of %s: %v, want %v", id, got[id], gone)
		}
		if gone {
			j.state, j.changed = discarded, true
		}
	}
}
