package jobs_test

import (
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/shared/api"
)

// checkLeases: the epochs of a job are 1, 2, 3 … with one lease each; each lease
// ends once, or is the one that still holds; none is used after the next claim
// was answered; none is taken back before its end.
func (h *history) checkLeases() {
	h.Helper()
	byLease := map[job.Lease]claimed{}
	epochs := map[uuid.UUID][]int64{}
	for _, c := range h.claims {
		if _, twice := byLease[c.Lease()]; twice || c.Attempt > c.MaxAttempts {
			h.Errorf("claimed twice, or once too often: %+v", c)
		}
		byLease[c.Lease()] = c
		epochs[c.ID] = append(epochs[c.ID], c.Epoch)
	}
	next := map[uuid.UUID]map[int64]claimed{}
	for _, c := range h.claims {
		if next[c.ID] == nil {
			next[c.ID] = map[int64]claimed{}
		}
		next[c.ID][c.Epoch-1] = c
	}
	ended := map[uuid.UUID]int{}
	over := map[job.Lease]bool{}
	for _, u := range h.uses {
		if _, known := byLease[u.lease]; !known || over[u.lease] && u.outcome != nil {
			h.Errorf("use of a lease that never was, or that ended twice: %+v", u)
		}
		if after, ok := next[u.lease.Job][u.lease.Epoch]; ok && u.began > after.ended {
			h.Errorf("job %s: epoch %d was used after epoch %d was claimed", u.lease.Job, u.lease.Epoch, after.Epoch)
		}
		if u.outcome != nil {
			over[u.lease] = true
			ended[u.lease.Job]++
		}
	}
	for _, taken := range h.takings {
		ended[taken.ID]++
		if taken.Late <= 0 {
			h.Errorf("job %s: a lease was taken back before its end", taken.ID)
		}
	}
	for _, id := range h.accepted {
		slices.Sort(epochs[id])
		for i, epoch := range epochs[id] {
			if epoch != int64(i+1) {
				h.Errorf("job %s was claimed in the epochs %v", id, epochs[id])
				break
			}
		}
		// Bury does not say whether the job was running.
		open := len(epochs[id]) - ended[id] - h.Count("jobs WHERE state = 'running' AND id = '"+id.String()+"'")
		if open < 0 || open > times(h.expired, id) {
			h.Errorf("job %s: %d claims, %d ends, %d left", id, len(epochs[id]), ended[id], open)
		}
	}
}

// checkLives: every accepted job is in exactly one place, nothing else is, and
// each of its lives has ended once, but for the one it lives.
func (h *history) checkLives() {
	h.Helper()
	states := h.states()
	terminals := map[uuid.UUID]int{}
	for _, u := range h.uses {
		if u.outcome != nil && job.State(u.outcome.State).Terminal() {
			terminals[u.lease.Job]++
		}
	}
	for _, taken := range h.takings {
		if taken.Verdict.State.Terminal() {
			terminals[taken.ID]++
		}
	}
	for _, id := range h.gone {
		if states[id] != "" || times(h.gone, id) != 1 {
			h.Errorf("job %s was discarded and is %s", id, states[id])
		}
		states[id] = discarded
	}
	if len(states) != len(h.accepted) {
		h.Errorf("%d accepted, %d live, finished, dead or discarded", len(h.accepted), len(states))
	}
	for _, id := range h.accepted {
		ends, lives := terminals[id]+times(h.expired, id), times(h.redriven, id)+1
		switch states[id] {
		case "":
			h.Errorf("job %s is lost", id)
		case api.StateScheduled, api.StateQueued, api.StateRunning:
			lives--
		case api.StateCancelled:
			if ends == lives-1 { // cancelled while it waited: the owner gets the same answer each time
				ends++
			}
		}
		if ends != lives {
			h.Errorf("job %s, %s, ended %d times, want %d", id, states[id], ends, lives)
		}
	}
}

func (h *history) states() map[uuid.UUID]string {
	h.Helper()
	rows, err := h.Direct.Query(h.Context(), `
		SELECT id, state FROM jobs UNION ALL SELECT id, state FROM finished_jobs UNION ALL SELECT id, 'dead_letter' FROM dead_letters`)
	if err != nil {
		h.Fatal(err)
	}
	states := map[uuid.UUID]string{}
	var id uuid.UUID
	var state string
	if _, err := pgx.ForEachRow(rows, []any{&id, &state}, func() error {
		if states[id] != "" {
			h.Errorf("job %s is %s and %s", id, states[id], state)
		}
		states[id] = state
		return nil
	}); err != nil {
		h.Fatal(err)
	}
	return states
}

// checkKeys: one answer, and so one job, for each key.
func (h *history) checkKeys() {
	h.Helper()
	for key, answers := range h.keyed {
		if len(slices.Compact(answers)) != 1 {
			h.Errorf("the key %s was answered in more than one way: %v", key, answers)
		}
	}
	if keys := h.Count("idempotency_keys"); keys != len(h.keyed) {
		h.Errorf("%d keys, want %d", keys, len(h.keyed))
	}
}

func times(ids []uuid.UUID, id uuid.UUID) (n int) {
	for _, other := range ids {
		if other == id {
			n++
		}
	}
	return n
}
