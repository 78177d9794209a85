package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// reportEvery is the least time between two reports of one job.
	reportEvery = time.Second
	// reportBytes bounds the checkpoints of one heartbeat; a request has 8 MiB.
	reportBytes = 4 << 20
	// lastReport is how long the report before an outcome may take.
	lastReport = 5 * time.Second
)

// Progress says how far the attempt has come: percent of the whole, 0 to 100, and what it does now; a percentage below
// 0 is not known, and an empty message none. It is shown with the job, as GET /v1/jobs/{id} and `forgequeue job watch`
// do; the next attempt begins without. It may be called as often as you like: the newest is sent, at most once a
// second, and a failure to send it is only logged. A message is cut to 256 characters.
func (i *Info) Progress(percent float64, message string) {
	if i.reports == nil {
		return
	}
	p := &api.Progress{}
	if percent >= 0 { // NaN is not
		most := min(percent, 100)
		p.Percent = &most
	}
	if message != "" {
		if runes := []rune(message); len(runes) > api.MaxProgressMessage {
			message = string(runes[:api.MaxProgressMessage])
		}
		p.Message = &message
	}
	i.reports.add(p, nil)
}

// Checkpoint keeps a value, as JSON of at most 64 KiB, for the attempts after this one, which read it with Restore. It
// replaces the one before. It is sent within about a second, and before the attempt ends otherwise than completed; a
// worker that is killed, or loses its lease, loses what was not sent. So what a handler does after its last checkpoint
// may be done again. An error says that the value cannot be kept: then the one before stays.
func (i *Info) Checkpoint(value any) error {
	text, err := json.Marshal(value)
	if err == nil && len(text) > api.MaxCheckpoint {
		err = fmt.Errorf("has %d bytes as JSON, and may have %d", len(text), api.MaxCheckpoint)
	}
	if err == nil && api.TooDeep(append([]byte("[[["), text...)) { // of a heartbeat it is in three levels
		err = fmt.Errorf("is nested more than %d levels deep", api.MaxDepth-3)
	}
	if err == nil && string(text) == "null" {
		err = fmt.Errorf("is null, which would leave the one before; use an empty value of your own")
	}
	if err != nil {
		return fmt.Errorf("worker: the checkpoint %w", err)
	}
	if i.reports != nil {
		i.reports.add(nil, text)
	}
	return nil
}

// Restore reads the last checkpoint of an earlier attempt into value, which is a pointer; false if there is none. An
// error says that it is of another shape.
func (i *Info) Restore(value any) (bool, error) {
	if len(i.checkpoint) == 0 || string(i.checkpoint) == "null" {
		return false, nil
	}
	if err := json.Unmarshal(i.checkpoint, value); err != nil {
		return false, fmt.Errorf("worker: the checkpoint cannot be read: %w", err)
	}
	return true, nil
}

// reports are what a handler has reported and the server does not have yet.
type reports struct {
	mu         sync.Mutex
	progress   *api.Progress
	checkpoint json.RawMessage
	// added counts reports: what came while one was sent stays.
	added int
	// next is when the next may be sent.
	next time.Time
	// wake wakes the heartbeats; nil in an attempt without any.
	wake func()
}

func (r *reports) add(progress *api.Progress, checkpoint json.RawMessage) {
	r.mu.Lock()
	first := r.progress == nil && r.checkpoint == nil
	if progress != nil {
		r.progress = progress
	}
	if checkpoint != nil {
		r.checkpoint = checkpoint
	}
	r.added++
	r.mu.Unlock()
	if first && r.wake != nil {
		r.wake()
	}
}

// take puts what is to be sent into a lease, and gives the number to confirm it with.
func (r *reports) take(into *api.Lease) (added int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	into.Progress, into.Checkpoint = r.progress, r.checkpoint
	r.next = time.Now().Add(reportEvery)
	return r.added
}

// sent confirms what was taken.
func (r *reports) sent(added int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.added == added {
		r.progress, r.checkpoint = nil, nil
	}
}

// due is when there is something to send; false if there is nothing.
func (r *reports) due() (time.Time, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next, r.progress != nil || r.checkpoint != nil
}

// unsent is the checkpoint that is to be sent; nil for none.
func (r *reports) unsent() json.RawMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.checkpoint
}

// reporting gives the leases whose reports are due by a moment.
func (t *leases) reporting(by time.Time) (due []*lease) {
	for _, l := range t.all() {
		if at, ok := l.reports.due(); ok && !at.After(by) {
			due = append(due, l)
		}
	}
	return due
}

// reportDue is when the first report is due, at most by.
func (t *leases) reportDue(by time.Time) time.Time {
	for _, l := range t.all() {
		if at, ok := l.reports.due(); ok && at.Before(by) {
			by = at
		}
	}
	return by
}

// reportLast sends the checkpoint of a job whose attempt ends, so that the next one gets it. A wait has it with it.
func (r *run) reportLast(l *lease, d decision) {
	if d.kind == "" || d.kind == api.KindComplete || d.kind == api.KindWait || l.reports.unsent() == nil {
		return
	}
	ctx, cancel := context.WithTimeout(r.base, lastReport)
	defer cancel()
	// A heartbeat that is under way may have an older checkpoint, which must not arrive after this one.
	err := l.sending.LockWithin(ctx)
	if err == nil {
		defer l.sending.Unlock()
		err = r.extend(ctx, []*lease{l}, []bool{true})
	}
	if err != nil {
		r.worker.logger.Warn("the last checkpoint could not be sent", "job_id", l.job.ID, "error", err.Error())
	}
}

// turn is held by one at a time.
type turn chan struct{}

// TryLock takes it if it is free.
func (t turn) TryLock() bool {
	select {
	case t <- struct{}{}:
		return true
	default:
		return false
	}
}

// LockWithin takes it, unless ctx ends before.
func (t turn) LockWithin(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Unlock gives it back.
func (t turn) Unlock() { <-t }
