package dispatch

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// watches are the callers that wait for a job to change. They are woken by what
// this core does, by what other cores say has ended, and at last by one poll for
// all of them.
type watches struct {
	mu    sync.Mutex
	byJob map[uuid.UUID]*watched
	// turn has the watched jobs in the order in which they are polled for.
	turn list.List
}

// watched is a job with those who watch it.
type watched struct {
	id      uuid.UUID
	watches []*watch
	place   *list.Element
	// read is when one of them read the job last: until then they missed nothing.
	read time.Time
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
		w.byJob = map[uuid.UUID]*watched{}
	}
	job := w.byJob[id]
	if job == nil {
		job = &watched{id: id, read: time.Now()}
		job.place = w.turn.PushBack(job)
		w.byJob[id] = job
	}
	one := &watch{changed: make(chan struct{}, 1)}
	job.watches = append(job.watches, one)
	return one
}

func (w *watches) remove(id uuid.UUID, one *watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	job := w.byJob[id]
	if job.watches = slices.DeleteFunc(job.watches, func(other *watch) bool { return other == one }); len(job.watches) == 0 {
		w.turn.Remove(job.place)
		delete(w.byJob, id)
	}
}

func (w *watches) know(id uuid.UUID, one *watch, state string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one.seen = state
	w.byJob[id].read = time.Now()
}

// tell wakes everybody who watches the job.
func (w *watches) tell(ids []uuid.UUID) {
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

func (one *watch) wake() {
	select {
	case one.changed <- struct{}{}:
	default: // it is awake already
	}
}

// next lists up to most watched jobs that nobody has read lately, others each time until
// all had their turn.
func (w *watches) next(most int, lately time.Duration) (ids []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for range min(most, w.turn.Len()) {
		first := w.turn.Front()
		w.turn.MoveToBack(first)
		if job, _ := first.Value.(*watched); time.Since(job.read) >= lately {
			ids = append(ids, job.id)
		}
	}
	return ids
}

// compare wakes those whose job is not where they think it is.
func (w *watches) compare(states map[uuid.UUID]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, state := range states {
		job := w.byJob[id]
		if job == nil {
			continue
		}
		for _, one := range job.watches {
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
		d.watches.know(call.ID, one, found.State)
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

// watchesPerPoll bounds one statement.
const watchesPerPoll = 1000

// pollWatches looks after jobs whose change nobody told of, some of them each time.
func (d *Dispatcher) pollWatches(ctx context.Context) {
	pause := pollEvery
	for wait.For(ctx, jittered(pause)) == nil {
		pause = pollEvery
		ids := d.watches.next(watchesPerPoll, pollEvery)
		if len(ids) == 0 {
			continue
		}
		begun := time.Now()
		states, err := d.store.WhereNow(ctx, ids)
		if err != nil && ctx.Err() == nil {
			d.log.WarnContext(ctx, "watched jobs are not polled for", "error", err)
		}
		d.watches.compare(states)
		pause = max(pollEvery, rest(begun))
	}
}
