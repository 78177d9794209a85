package jobs_test

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/cell/celltest"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/workers"
)

// What time does, and the duties that react to it. A
// duty takes at most a batch; which of the candidates it takes is its own affair.

func (w *world) expire(t *rapid.T) {
	j := w.one(t, func(j *modelJob) bool { return j.running() && !j.expired })
	w.change(j, `UPDATE jobs SET started_at = started_at - interval '1000 seconds',
		lease_expires_at = lease_expires_at - interval '1000 seconds' WHERE id = $1`)
	j.expired = true
}

func (w *world) reap(t *rapid.T) {
	batch := rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "batch")
	got, err := w.store().Jobs.Reap(w.ctx, time.Unix(0, 0), batch, celltest.Half)
	if err != nil {
		t.Fatal(err)
	}
	taken := w.expectTaken(t, idsOf(got), batch, func(j *modelJob) bool { return j.running() && j.expired })
	for i, j := range taken {
		j.leaseEnded(w.tick)
		w.expectReaped(t, j, got[i])
		if got[i].Late <= 0 || got[i].Late > modelAge+modelTolerance {
			t.Fatalf("a lease was taken back %v after its end", got[i].Late)
		}
	}
}

func (w *world) expectReaped(t *rapid.T, j *modelJob, got jobs.Change) {
	if string(got.Verdict.State) != j.state || string(got.Verdict.Reason) != j.reason || got.Ready.Lane != j.lane {
		t.Fatalf("%s took job %s: %+v, want %s %s", got.Event, j.id, got, j.state, j.reason)
	}
}

// expectTaken: as many as the batch holds, each a candidate, none twice.
func (w *world) expectTaken(t *rapid.T, got []uuid.UUID, batch int, candidate func(*modelJob) bool) []*modelJob {
	w.tick++
	all := 0
	for _, j := range w.jobs {
		if candidate(j) {
			all++
		}
	}
	if len(got) != min(all, batch) {
		t.Fatalf("took %d jobs, want %d of %d", len(got), batch, all)
	}
	var taken []*modelJob
	for _, id := range got {
		j := w.jobs[id]
		if j == nil || !candidate(j) || slices.Contains(taken, j) {
			t.Fatalf("took job %s: %+v", id, j)
		}
		taken = append(taken, j)
	}
	return taken
}

func (w *world) comeDue(t *rapid.T) {
	j := w.one(t, func(j *modelJob) bool { return j.delayed() && !j.due })
	w.change(j, `UPDATE jobs SET run_at = statement_timestamp() WHERE id = $1`)
	j.due, j.wait = true, 0
}

func (w *world) promote(t *rapid.T) {
	batch := rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "batch")
	got, err := w.store().Jobs.Promote(w.ctx, jobs.AllTime, batch)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]uuid.UUID, len(got))
	for i := range got {
		ids[i] = got[i].ID
	}
	for i, j := range w.expectTaken(t, ids, batch, func(j *modelJob) bool { return j.delayed() && j.due }) {
		j.queue(w.tick)
		if got[i].Lane != j.lane {
			t.Fatalf("job %s was promoted in lane %d", j.id, got[i].Lane)
		}
	}
}

func (w *world) runLate(t *rapid.T) {
	j := w.one(t, func(j *modelJob) bool { return (j.live() || j.state == "dead_letter") && j.hasDeadline && !j.late })
	table := "jobs"
	if !j.live() {
		table = "dead_letters"
	}
	w.change(j, `UPDATE `+table+` SET deadline = statement_timestamp() - interval '1 second' WHERE id = $1`)
	j.late = true
}

func (w *world) expireDeadlines(t *rapid.T) {
	batch := rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "batch")
	got, err := w.store().Jobs.ExpireDeadlines(w.ctx, jobs.AllTime, batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, j := range w.expectTaken(t, idsOf(got), batch, func(j *modelJob) bool { return j.live() && j.late }) {
		j.deadlinePassed()
		w.expectReaped(t, j, got[i])
	}
}

func (w *world) workerDies(t *rapid.T) {
	worker := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(t, "worker")]
	if !worker.known || worker.dead {
		t.Skip("no living worker")
	}
	_, err := w.direct.Exec(w.ctx, `UPDATE workers SET last_heartbeat_at = statement_timestamp() - interval '121 seconds'
		WHERE owner = $1 AND worker_id = $2`, worker.owner, worker.id)
	if err != nil {
		t.Fatal(err)
	}
	store := w.store()
	if aged, err := store.Workers.Age(w.ctx, time.Time{}); err != nil || aged != (workers.Aged{Dead: 1}) {
		t.Fatalf("%+v %v", aged, err)
	}
	if _, err := store.Workers.Beat(w.ctx, worker.owner, worker.id); !errors.Is(err, workers.ErrUnknown) {
		t.Fatalf("the heartbeat of a dead worker: %v", err)
	}
	worker.dead = true
}

func (w *world) reapDead(t *rapid.T) {
	batch := rapid.SampledFrom([]int{1, 2, 100}).Draw(t, "batch")
	got, err := w.store().Jobs.ReapDead(w.ctx, batch, celltest.Half)
	if err != nil {
		t.Fatal(err)
	}
	orphan := func(j *modelJob) bool {
		return j.running() && slices.ContainsFunc(w.workers, func(worker *modelWorker) bool {
			return worker.dead && worker.id == j.worker && worker.owner == j.owner
		})
	}
	for i, j := range w.expectTaken(t, idsOf(got), batch, orphan) {
		j.leaseEnded(w.tick)
		w.expectReaped(t, j, got[i])
	}
}

// idsOf lists the jobs.
func idsOf(changes []jobs.Change) []uuid.UUID {
	ids := make([]uuid.UUID, len(changes))
	for i := range changes {
		ids[i] = changes[i].ID
	}
	return ids
}
