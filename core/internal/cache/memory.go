package cache

import (
	"context"
	"sync/atomic"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/queues"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Memory is what this core knows of its cell.
type Memory struct {
	Lanes    *Lanes
	Limits   *Limits
	Maker    *LaneMaker
	Served   Served
	Breakers Breakers

	store *cell.Cell
	// maxRunning caps the leases of the whole installation; nil for no cap.
	maxRunning *int64
}

// New makes an empty one. maxRunning caps the leases of the whole installation; 0 for no cap.
func New(store *cell.Cell, maxRunning int64) *Memory {
	m := &Memory{store: store, Lanes: NewLanes(store), Limits: newLimits(store)}
	m.Maker = newLaneMaker(m.Lanes, store)
	if maxRunning > 0 {
		m.maxRunning = &maxRunning
	}
	return m
}

// CapsAll says whether the leases of the whole installation are capped.
func (m *Memory) CapsAll() bool { return m.maxRunning != nil }

// Settings gives a queue's settings; all defaults for an unknown queue.
func (m *Memory) Settings(owner tenant.ID, name string) queues.Settings {
	return m.Lanes.Settings(owner, name)
}

// LaneOf is the lane of a job: a user with its own running cap has its own lanes, and so have jobs whose keys take
// turns, and jobs with costs. jobKey is nil for a job without a key.
func (m *Memory) LaneOf(owner tenant.ID, name, jobType string, tags []string, user, jobKey *string, costs bool) lanes.Key {
	key := lanes.NewKey(owner, name, jobType, tags)
	key.Fair = jobKey != nil && m.Lanes.Settings(owner, name).Keys.TakeTurns()
	key.Budgeted = costs
	if user != nil && m.Limits.For(owner, *user).UserMaxRunning != nil {
		return key.Of(*user)
	}
	return key
}

// HeldBack says that a queue is paused or in a window, or that the breaker of its destination is not closed: its jobs wait for a time that
// no rate tells, so nothing is estimated.
func (m *Memory) HeldBack(settings *queues.Settings) bool {
	if settings.Stopped() {
		return true
	}
	if !settings.Push {
		return false
	}
	breaker := m.Breakers.Of(settings.QueueKey)
	return breaker != nil && breaker.State != api.BreakerClosed
}

// RefreshServed reads which queues are served, if that is not known from a moment ago.
func (m *Memory) RefreshServed(ctx context.Context) error { return m.Served.Refresh(ctx, m.store) }

// Breakers are those of queues in push mode, which the executor has.
type Breakers struct {
	lookup atomic.Pointer[func(tenant.QueueKey) *api.Breaker]
	probe  atomic.Pointer[func(key tenant.QueueKey, probes int64)]
}

// Show sets the source of the breakers, and what is called where a destination is to be tried before its breaker's
// time; probes is how often that was asked for.
func (b *Breakers) Show(ask func(tenant.QueueKey) *api.Breaker, probe func(key tenant.QueueKey, probes int64)) {
	b.lookup.Store(&ask)
	b.probe.Store(&probe)
}

// Of is the breaker of a queue, nil where there is none.
func (b *Breakers) Of(key tenant.QueueKey) *api.Breaker {
	if ask := b.lookup.Load(); ask != nil {
		return (*ask)(key)
	}
	return nil
}

// Probe lets the next calls of a destination through, although its breaker is open.
func (b *Breakers) Probe(key tenant.QueueKey, probes int64) {
	if tell := b.probe.Load(); tell != nil {
		(*tell)(key, probes)
	}
}
