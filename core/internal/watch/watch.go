// Package watch lets callers wait until a job changes. It is memory only: callers are woken by this
// core's changes, by notifications of other cores, and by a fallback poll for all watched jobs.
package watch

import (
	"container/list"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Watches are the callers that wait for a job to change.
type Watches struct {
	reads *read.Reader
	// drained ends every wait when it is closed.
	drained <-chan struct{}
	log     *slog.Logger

	mu    sync.Mutex
	byJob map[uuid.UUID]*watched
	// pollOrder has the watched jobs in poll order.
	pollOrder list.List
}

// New makes them. A closed drained ends every wait.
func New(reads *read.Reader, drained <-chan struct{}, log *slog.Logger) *Watches {
	return &Watches{reads: reads, drained: drained, log: log}
}

// watched is a job with its watches.
type watched struct {
	id      uuid.UUID
	watches []*watch
	place   *list.Element
	// read is when a watcher last read the job: its state is current up to then.
	read time.Time
}

type watch struct {
	// seen is what the watcher has read: the state, or the version where versions is set.
	seen     string
	versions bool
	changed  chan struct{}
}

func snapshotOf(found *api.Job) read.Snapshot {
	return read.SnapshotOf(found.State, found.Epoch, found.CancelRequested, found.Progress, found.Output)
}

// of is the part of a snapshot that the watcher compares.
func (one *watch) of(now read.Snapshot) string {
	if one.versions {
		return now.Version
	}
	return now.State
}

func (w *Watches) add(id uuid.UUID, versions bool) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byJob == nil {
		w.byJob = map[uuid.UUID]*watched{}
	}
	job := w.byJob[id]
	if job == nil {
		job = &watched{id: id, read: time.Now()}
		job.place = w.pollOrder.PushBack(job)
		w.byJob[id] = job
	}
	one := &watch{versions: versions, changed: make(chan struct{}, 1)}
	job.watches = append(job.watches, one)
	return one
}

func (w *Watches) remove(id uuid.UUID, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := w.byJob[id]
	if job.watches = slices.DeleteFunc(job.watches, func(other *watch) bool { return other == one }); len(job.watches) == 0 {
		w.pollOrder.Remove(job.place)
		delete(w.byJob, id)
	}
}

func (w *Watches) setSeen(id uuid.UUID, one *watch, now read.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.seen = one.of(now)
	w.byJob[id].read = time.Now()
}

// Wake wakes all watchers of the jobs.
func (w *Watches) Wake(ids []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if job := w.byJob[id]; job != nil {
			for _, one := range job.watches {
				one.wake()
			}
		}
	}
}

// WakeForVersion wakes those watchers of the jobs that wait for another version: their states have not changed.
func (w *Watches) WakeForVersion(ids ...uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		if job := w.byJob[id]; job != nil {
			for _, one := range job.watches {
				if one.versions {
					one.wake()
				}
			}
		}
	}
}

func (one *watch) wake() {
	select {
	case one.changed <- struct{}{}:
	default: // it is awake already
	}
}

// Next lists up to most watched jobs that were not read for lately, in rotation.
func (w *Watches) Next(most int, lately time.Duration) (ids []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range min(most, w.pollOrder.Len()) {
		first := w.pollOrder.Front()
		w.pollOrder.MoveToBack(first)
		if job, _ := first.Value.(*watched); time.Since(job.read) >= lately {
			ids = append(ids, job.id)
		}
	}
	return ids
}

// Compare wakes the watchers that have read another snapshot of a job.
func (w *Watches) Compare(id uuid.UUID, now read.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := w.byJob[id]
	if job == nil {
		return
	}
	for _, one := range job.watches {
		if one.seen != "" && one.seen != one.of(now) {
			one.wake()
		}
	}
}

// Call waits until a job changes.
type Call struct {
	Tenant tenant.ID
	// User restricts the call to one user's jobs, "" for all.
	User string
	ID   uuid.UUID
	Wait time.Duration
	// Ended waits for a terminal state; otherwise for a state other than Seen, or than the first
	// one read where Seen is empty.
	Ended bool
	Seen  string
	// Version waits for any other version of the job instead, where it is not empty.
	Version string
}

func (c *Call) satisfied(now read.Snapshot) bool {
	if c.Version != "" {
		return now.Version != c.Version && now.Hidden != c.Version
	}
	state := now.State
	if job.State(state).Terminal() && c.Ended {
		return true
	}
	return !c.Ended && c.Seen != "" && state != c.Seen
}

// Wait gives the job when it is in the state that the caller waits for, or as it is when the wait
// is over. An unknown job is store.ErrNotFound.
func (w *Watches) Wait(ctx context.Context, call Call) (api.Job, error) {
	over := time.NewTimer(call.Wait)
	defer over.Stop()
	one := w.add(call.ID, call.Version != "") // before the first read: a change in between would wake no watcher
	defer w.remove(call.ID, one)
	for {
		found, err := w.reads.Get(ctx, call.Tenant, call.User, call.ID)
		if err != nil {
			return found, err
		}
		now := snapshotOf(&found)
		if call.satisfied(now) {
			return found, nil
		}
		// A terminal state never changes, except by the redrive of a dead letter: only a caller
		// that has seen it dead waits for that.
		if job.State(found.State).Terminal() && (found.State != api.StateDeadLetter || call.Seen == "") {
			return found, nil
		}
		if call.Seen == "" {
			call.Seen = found.State
		}
		w.setSeen(call.ID, one, now)
		select {
		case <-ctx.Done():
			return api.Job{}, ctx.Err()
		case <-over.C:
			return found, nil
		case <-w.drained:
			return found, nil
		case <-one.changed:
		}
	}
}
