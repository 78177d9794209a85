package jobs_test

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/core/internal/workers"
)

func (w *world) claim(t *rapid.T) {
	worker := w.workers[rapid.IntRange(0, len(w.workers)-1).Draw(t, "worker")]
	var lanes []lanes.Lane
	for _, i := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "lanes") {
		lane := w.lanes[i]
		if worker.owner == tenant.Platform || worker.owner == lane.Tenant {
			lanes = append(lanes, lane)
		}
	}
	lanes = lanes[:rapid.IntRange(1, len(lanes)).Draw(t, "n")]
	most := rapid.IntRange(1, 4).Draw(t, "max")
	request := claim.Request{Workers: []claim.Worker{{ID: worker.id, Max: most}}, Owner: worker.owner, LeaseID: uuid.New()}
	for _, lane := range lanes {
		request.Lanes = append(request.Lanes, claim.Lane{
			ID: lane.ID, Tenant: lane.Tenant, VisibilityTimeout: modelVisibility, Caps: w.runningCaps(t, lane),
		})
	}
	store := w.store()
	if _, _, err := store.Workers.SeenClaiming(w.ctx, worker.owner, worker.id, workers.Claiming{Queues: []string{"default"}}); err != nil {
		t.Fatal(err)
	}
	worker.known, worker.dead = true, false
	want := w.next(lanes, most)
	taken, err := store.Claims.Claim(w.ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	got := taken.Jobs
	if len(got) != len(want) {
		t.Fatalf("claimed %d jobs, want %d", len(got), len(want))
	}
	for _, c := range got {
		w.expectClaimed(t, want[c.ID], worker, c)
	}
}

// next predicts a claim: priority by priority, lane by lane, first come first served.
func (w *world) next(from []lanes.Lane, most int) map[uuid.UUID]*modelJob {
	place := map[lanes.ID]int{}
	for i, lane := range from {
		place[lane.ID] = i
	}
	var list []*modelJob
	for _, j := range w.jobs {
		if _, asked := place[j.lane]; asked && j.state == "queued" && !j.late {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(place[a.lane], place[b.lane]),
			cmp.Compare(a.ready, b.ready), bytes.Compare(a.id[:], b.id[:]))
	})
	next := map[uuid.UUID]*modelJob{}
	for _, j := range list[:min(most, len(list))] {
		next[j.id] = j
	}
	return next
}

func (w *world) expectClaimed(t *rapid.T, j *modelJob, worker *modelWorker, c claim.Job) {
	if j == nil {
		t.Fatalf("job %s was claimed out of order: lane %d, priority %d, ready %v", c.ID, c.LaneID, c.Priority, c.ReadyAt)
	}
	j.isClaimed(c.Lease(), worker)
	if int(c.Epoch) != j.epoch || int(c.Attempt) != j.attempt || c.TenantID != j.tenant || c.LaneID != j.lane ||
		int(c.MaxAttempts) != j.maxAttempts || int(c.Priority) != j.priority || string(c.Payload) != j.payload {
		t.Fatalf("claimed %+v, want %+v", c, *j)
	}
	if c.Attempt > c.MaxAttempts {
		t.Fatalf("attempt %d of %d", c.Attempt, c.MaxAttempts)
	}
	if slices.ContainsFunc(j.lost, func(lost job.Lease) bool { return lost.ID == c.LeaseID || lost.Epoch == c.Epoch }) {
		t.Fatalf("job %s had this lease before: %+v", c.ID, c.Lease())
	}
	length := modelVisibility
	if j.timeout {
		length = modelTimeout
	}
	if got := c.LeaseExpiresAt.Sub(c.StartedAt); got != length {
		t.Fatalf("a lease of %v, want %v", got, length)
	}
}

// heartbeat mixes held and stale leases: those that hold are extended, the others
// change nothing.
func (w *world) heartbeat(t *rapid.T) {
	want := map[job.Lease]*modelJob{}
	var leases []job.Lease
	for _, j := range w.some(t, 4, func(j *modelJob) bool { return j.lease != nil || len(j.lost) > 0 }) {
		lease := w.anyLease(t, j)
		leases = append(leases, lease)
		if j.lease != nil && *j.lease == lease {
			want[lease] = j
		}
	}
	beats, err := w.store().Jobs.Heartbeat(w.ctx, leases)
	if err != nil {
		t.Fatal(err)
	}
	if len(beats) != len(want) {
		t.Fatalf("%d of %d leases were held, want %d", len(beats), len(leases), len(want))
	}
	for lease, beat := range beats {
		j := want[lease]
		if j == nil || beat.CancelRequested != j.cancelRequested {
			t.Fatalf("a heartbeat of %+v: %+v", lease, beat)
		}
		j.changed = true
		// Nothing carries an attempt past its timeout.
		if !j.timeout {
			j.expired = false
		}
		if time.Until(beat.LeaseExpiresAt) < 0 != j.expired {
			t.Fatalf("a heartbeat until %v, expired %v", beat.LeaseExpiresAt, j.expired)
		}
	}
}

// anyLease is one of all that a job ever had.
func (w *world) anyLease(t *rapid.T, j *modelJob) job.Lease {
	if j.lease != nil && (len(j.lost) == 0 || rapid.Bool().Draw(t, "held")) {
		return *j.lease
	}
	return j.lost[rapid.IntRange(0, len(j.lost)-1).Draw(t, "lost")]
}
