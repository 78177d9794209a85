package jobs_test

import (
	"errors"
	"reflect"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

func (w *world) kind(t *rapid.T) string {
	return rapid.SampledFrom([]string{api.KindComplete, api.KindFail, api.KindSnooze, api.KindRelease, api.KindWait}).Draw(t, "kind")
}

func (w *world) ending(t *rapid.T, lease job.Lease, kind string) jobs.Ending {
	e := jobs.Ending{Lease: lease, Kind: kind, Random: 0.5}
	switch kind {
	case api.KindComplete:
		e.Result = []byte(rapid.SampledFrom([]string{`1`, `{"a": 1.0}`}).Draw(t, "result"))
	case api.KindFail:
		e.Permanent = rapid.IntRange(0, 4).Draw(t, "permanent") == 0
		if rapid.Bool().Draw(t, "error") {
			e.Error = &api.JobError{Type: rapid.SampledFrom([]string{"io", "cpu"}).Draw(t, "type"), Message: "m", Stack: "s"}
		}
		if rapid.Bool().Draw(t, "retry_after") {
			after := modelRetryAfter
			e.RetryAfter = &after
		}
	case api.KindSnooze:
		e.Delay = rapid.SampledFrom([]time.Duration{0, modelSnooze}).Draw(t, "delay")
	}
	if kind == api.KindWait {
		e.Delay = modelSnooze
		e.Wait = &jobs.Wait{Names: modelSignals[:rapid.IntRange(0, len(modelSignals)).Draw(t, "names")], All: rapid.Bool().Draw(t, "all")}
	}
	return e
}

func (w *world) endOne(kind string) func(*rapid.T) {
	return func(t *rapid.T) {
		w.end(t, w.ending(t, *w.one(t, (*modelJob).running).lease, kind))
	}
}

// endStale speaks with a lease that holds nothing: lost, forged, or of no job.
func (w *world) endStale(t *rapid.T) {
	lease := job.Lease{Tenant: w.tenants[0], Job: uuid.New(), Epoch: 1, ID: uuid.New()}
	switch rapid.IntRange(0, 5).Draw(t, "how") {
	case 0: // of no job
	case 1: // another tenant's
		j := w.one(t, (*modelJob).running)
		lease = *j.lease
		lease.Tenant = w.other(j.tenant)
	case 2: // its own job's, made up
		j := w.one(t, func(*modelJob) bool { return true })
		lease = job.Lease{Tenant: j.tenant, Job: j.id, Epoch: int64(j.epoch), ID: uuid.New()}
	case 3: // the epoch of another claim
		lease = *w.one(t, (*modelJob).running).lease
		lease.Epoch++
	default:
		lost := w.one(t, func(j *modelJob) bool { return len(j.lost) > 0 }).lost
		lease = lost[rapid.IntRange(0, len(lost)-1).Draw(t, "lost")]
	}
	w.end(t, w.ending(t, lease, w.kind(t)))
}

func (w *world) other(id tenant.ID) tenant.ID {
	if id == w.tenants[0] {
		return w.tenants[1]
	}
	return w.tenants[0]
}

// endAgain repeats an outcome on record, or says something else with its lease.
func (w *world) endAgain(t *rapid.T) {
	w.end(t, w.again(t, w.one(t, func(j *modelJob) bool { return j.saved != nil })))
}

func (w *world) again(t *rapid.T, j *modelJob) jobs.Ending {
	if rapid.Bool().Draw(t, "same") {
		e := j.saved.ending
		e.Random = 0.9 // a repeat draws again, and gets the first wait
		return e
	}
	return w.ending(t, j.saved.ending.Lease, w.kind(t))
}

// endMany is a flush: held, lost and repeated leases, some of them twice.
func (w *world) endMany(t *rapid.T) {
	var endings []jobs.Ending
	for _, j := range w.some(t, 4, func(j *modelJob) bool { return j.lease != nil || len(j.lost) > 0 }) {
		for range rapid.IntRange(1, 3).Draw(t, "times") {
			if j.saved != nil && rapid.Bool().Draw(t, "again") {
				endings = append(endings, w.again(t, j))
			} else {
				endings = append(endings, w.ending(t, w.anyLease(t, j), w.kind(t)))
			}
		}
	}
	w.end(t, endings...)
}

func (w *world) giveBack(t *rapid.T) {
	var leases []job.Lease
	var endings []jobs.Ending
	for _, j := range w.some(t, 3, func(j *modelJob) bool { return j.lease != nil || len(j.lost) > 0 }) {
		lease := w.anyLease(t, j)
		leases, endings = append(leases, lease), append(endings, jobs.Ending{Lease: lease, Kind: api.KindRelease})
	}
	w.expectEnded(t, endings, w.store().Jobs.GiveBack(w.ctx, leases))
}

func (w *world) end(t *rapid.T, endings ...jobs.Ending) {
	w.expectEnded(t, endings, w.store().Jobs.End(w.ctx, endings))
}

// expectEnded predicts each ending as if it were alone: what a flush makes of
// them together must be no different.
func (w *world) expectEnded(t *rapid.T, endings []jobs.Ending, got []jobs.Ended) {
	w.tick++
	if len(got) != len(endings) {
		t.Fatalf("%d answers to %d endings", len(got), len(endings))
	}
	for i := range endings {
		w.expectEnd(t, &endings[i], &got[i])
	}
}

func (w *world) expectEnd(t *rapid.T, e *jobs.Ending, got *jobs.Ended) {
	j := w.jobs[e.Lease.Job]
	switch {
	case j == nil || j.state == discarded || j.tenant != e.Lease.Tenant:
		expectErr(t, e, got, store.ErrNotFound)
	case j.lease != nil && *j.lease == e.Lease:
		w.ends(j, e)
		want := j.outcome()
		if got.Err == nil && got.Outcome != nil {
			want.RunAt = got.Outcome.RunAt // held against the row by the check
			j.saved.outcome = *got.Outcome
		}
		if got.Err != nil || got.Replayed || !sameOutcome(*got.Outcome, want) || (want.RunAt != nil) != j.live() ||
			!got.Ready.At.IsZero() != (j.state == "queued") || got.Ready.Lane != j.lane || string(got.Verdict.State) != j.state {
			t.Fatalf("%s of attempt %d got %+v %+v, want %+v", e.Kind, j.attempt, *got, got.Outcome, want)
		}
	case j.saved != nil && j.saved.ending.Lease == e.Lease && sameBody(j.saved.ending, *e):
		if got.Err != nil || !got.Replayed || !sameOutcome(*got.Outcome, j.saved.outcome) || got.Ready.Lane != 0 {
			t.Fatalf("the repeat of a %s of a job now %s got %+v %+v, first %+v", e.Kind, j.state, *got, got.Outcome, j.saved.outcome)
		}
	case j.saved != nil && j.saved.ending.Lease == e.Lease:
		expectErr(t, e, got, jobs.ErrOutcomeConflict)
	default:
		expectErr(t, e, got, jobs.ErrLeaseLost)
	}
}

func (w *world) ends(j *modelJob, e *jobs.Ending) {
	switch e.Kind {
	case api.KindComplete:
		j.completed(string(e.Result))
	case api.KindFail:
		if e.Error != nil {
			j.errorType = e.Error.Type
		}
		j.failed("failed", e.Permanent, e.RetryAfter)
	case api.KindWait:
		j.waits(e, w.tick)
	default:
		j.handedBack(e.Delay, w.tick)
	}
	j.saved = &savedOutcome{ending: *e}
}

func expectErr(t *rapid.T, e *jobs.Ending, got *jobs.Ended, want error) {
	if !errors.Is(got.Err, want) || got.Outcome != nil || got.Replayed || got.Change != (jobs.Change{}) {
		t.Fatalf("a %s with %+v got %+v, want %v", e.Kind, e.Lease, *got, want)
	}
}

func sameBody(a, b jobs.Ending) bool {
	a.Random, b.Random = 0, 0
	return reflect.DeepEqual(a, b)
}

func sameOutcome(a, b api.Outcome) bool {
	if (a.RunAt == nil) != (b.RunAt == nil) || (a.RunAt != nil && !a.RunAt.Equal(b.RunAt.Time)) {
		return false
	}
	a.RunAt, b.RunAt = nil, nil
	return reflect.DeepEqual(a, b)
}
