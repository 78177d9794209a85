package dispatch

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// watches are the callers that wait for a job to change. They are woken by what
// this core does, by what other cores say has ended, and at last by one poll for
// all of them.
type watches struct {
	mu    sync.Mutex
	byJob map[uuid.UUID][]*watch
}

type watch struct {
	// seen is the state that the watcher knows.
	seen    string
	changed chan struct{}
}

func (w *watches) add(id uuid.UUID) *watch {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byJob == nil {
		w.byJob = map[uuid.UUID][]*watch{}
	}
	one := &watch{changed: make(chan struct{}, 1)}
	w.byJob[id] = append(w.byJob[id], one)
	return one
}

func (w *watches) remove(id uuid.UUID, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	others := w.byJob[id]
	for i, other := range others {
		if other == one {
			others = append(others[:i], others[i+1:]...)
			break
		}
	}
	if len(others) == 0 {
		delete(w.byJob, id)
		return
	}
	w.byJob[id] = others
}

func (w *watches) know(one *watch, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.seen = state
}

// tell wakes everybody who watches the job.
func (w *watches) tell(ids []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		for _, one := range w.byJob[id] {
			one.wake()
		}
	}
}

func (one *watch) wake() {
	select {
	case one.changed <- struct{}{}:
	default: // it is awake already
	}
}

// ids lists the watched jobs.
func (w *watches) ids() []uuid.UUID {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := make([]uuid.UUID, 0, len(w.byJob))
	for id := range w.byJob {
		ids = append(ids, id)
	}
	return ids
}

// compare wakes those whose job is not where they think it is.
func (w *watches) compare(states map[uuid.UUID]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, state := range states {
		for _, one := range w.byJob[id] {
			if one.seen != "" && one.seen != state {
				one.wake()
			}
		}
	}
}

// WaitCall waits until a job changes.
type WaitCall struct {
	Tenant tenant.ID
	// User is the only one whose jobs the caller may see, "" for all.
	User string
	ID   uuid.UUID
	Wait time.Duration
	// Ended waits for an end; otherwise for a state other than Seen, or than the
	// first one found where Seen is empty.
	Ended bool
	Seen  string
}

func (c *WaitCall) satisfied(state string) bool {
	if job.State(state).Terminal() && c.Ended {
		return true
	}
	return !c.Ended && c.Seen != "" && state != c.Seen
}

// WaitJob gives the job as soon as it is what the caller waits for, or as it is
// when the wait is over. A job that is gone is queue.ErrNotFound.
func (d *Dispatcher) WaitJob(ctx context.Context, call WaitCall) (api.Job, error) {
	over := time.NewTimer(call.Wait)
	defer over.Stop()
	one := d.watches.add(call.ID) // before the look, or a change in between would wake nobody
	defer d.watches.remove(call.ID, one)
	for {
		found, err := d.store.Get(ctx, call.Tenant, call.User, call.ID)
		if err != nil || call.satisfied(found.State) {
			return found, err
		}
		// An end never changes again, but for a dead letter's redrive: only who has
		// seen it dead waits for that.
		if job.State(found.State).Terminal() && (found.State != api.StateDeadLetter || call.Seen == "") {
			return found, nil
		}
		if call.Seen == "" {
			call.Seen = found.State
		}
		d.watches.know(one, found.State)
		select {
		case <-ctx.Done():
			return api.Job{}, ctx.Err()
		case <-over.C:
			return found, nil
		case <-d.draining:
			return found, nil
		case <-one.changed:
		}
	}
}

// Changed tells who waits for these jobs, in this core.
func (d *Dispatcher) Changed(ids ...uuid.UUID) {
	if len(ids) > 0 {
		d.watches.tell(ids)
	}
}

// Ended tells who waits for these jobs, in every core.
func (d *Dispatcher) Ended(ids ...uuid.UUID) {
	if len(ids) > 0 {
		d.watches.tell(ids)
		d.tellEnded(ids)
	}
}

// pollWatches looks after jobs whose change nobody told of.
func (d *Dispatcher) pollWatches(ctx context.Context) {
	ids := d.watches.ids()
	if len(ids) == 0 {
		return
	}
	states, err := d.store.WhereNow(ctx, ids)
	if err != nil {
		if ctx.Err() == nil {
			d.log.WarnContext(ctx, "watched jobs are not polled for", "error", err)
		}
		return
	}
	d.watches.compare(states)
}
