package scheduler

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func laneOf(owner tenant.ID, id lanes.ID, name string, tags ...string) lanes.Lane {
	return lanes.Lane{ID: id, Key: lanes.NewKey(owner, name, "test", tags)}
}

func anyone(queues ...string) *Filter { return &Filter{Owner: tenant.Platform, Queues: queues} }

func (w *Waiter) isWoken() bool { return len(w.Woken) > 0 }

func TestOneJobWakesTheLongestWaiting(t *testing.T) {
	t.Parallel()
	var p Parking
	waiters := make([]*Waiter, 5)
	for i := range waiters {
		waiters[i] = p.Park(anyone("a"))
	}
	for n := range waiters {
		p.Wake(laneOf(uuid.New(), 1, "a"), false, 1)
		for i, w := range waiters {
			if w.isWoken() != (i <= n) {
				t.Fatalf("after %d wake-ups Waiter %d: woken %v", n+1, i, w.isWoken())
			}
		}
	}
}

func TestWakeUpsGoToThoseWhoCanTakeTheJob(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	var p Parking
	otherQueue := p.Park(anyone("b"))
	otherTenant := p.Park(&Filter{Owner: uuid.New(), Queues: []string{"a"}})
	without := p.Park(&Filter{Owner: owner, Queues: []string{"a"}, Tags: map[string]bool{"x": true}})
	with := p.Park(&Filter{Owner: owner, Queues: []string{"a"}, Tags: map[string]bool{"x": true, "y": true, "z": true}})
	p.Wake(laneOf(owner, 1, "a", "y", "x"), false, 9)
	if otherQueue.isWoken() || otherTenant.isWoken() || without.isWoken() || !with.isWoken() {
		t.Errorf("woken: queue %v, tenant %v, too few tags %v, right %v",
			otherQueue.isWoken(), otherTenant.isWoken(), without.isWoken(), with.isWoken())
	}
}

func TestManyJobsWakeAsManyClaims(t *testing.T) {
	t.Parallel()
	var p Parking
	waiters := make([]*Waiter, 5)
	for i := range waiters {
		waiters[i] = p.Park(anyone("a"))
	}
	p.Wake(laneOf(uuid.New(), 1, "a"), false, 3)
	woken := 0
	for _, w := range waiters {
		if w.isWoken() {
			woken++
		}
	}
	if woken != 3 {
		t.Errorf("%d woken, want 3", woken)
	}
}

func TestLeavingReturnsAnUnusedWakeUp(t *testing.T) {
	t.Parallel()
	var p Parking
	first, second := p.Park(anyone("a")), p.Park(anyone("a"))
	p.Wake(laneOf(uuid.New(), 7, "a"), false, 1)
	if lane, pending := p.Leave(first); !pending || lane != 7 {
		t.Errorf("leave = %d, %v, want 7, true", lane, pending)
	}
	if _, pending := p.Leave(second); pending {
		t.Error("a claim that was not woken has a wake-up to pass on")
	}
	if n := p.Count(); n != 0 {
		t.Errorf("%d claims are still parked", n)
	}
}

// Wake never blocks, however many claims there are and leave at the same time.
func TestParkingUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const claims, jobs = 50, 400
		var p Parking
		var group sync.WaitGroup
		var taken, left sync.Map
		job := laneOf(uuid.New(), 1, "a")
		pool := make(chan struct{}, jobs)
		for i := range claims {
			group.Go(func() {
				for {
					w := p.Park(anyone("a"))
					got := false
					over := time.After(time.Duration(i+1) * time.Millisecond)
				looking:
					for {
						select {
						case <-pool:
							got = true
							break looking
						default:
						}
						select {
						case <-w.Woken:
							p.Rearm(w)
						case <-over:
							break looking
						}
					}
					if _, pending := p.Leave(w); pending {
						p.Wake(job, false, 1)
					}
					if !got {
						left.Store(i, true)
						return
					}
					taken.Store(i, true)
				}
			})
		}
		for range jobs {
			pool <- struct{}{}
			p.Wake(job, false, 1)
		}
		group.Wait()
		if n := len(pool); n != 0 {
			t.Errorf("%d jobs were left although claims waited", n)
		}
		if n := p.Count(); n != 0 {
			t.Errorf("%d claims are still parked", n)
		}
	})
}

// A job wakes the longest waiting claim among those for its type and those for all types.
func TestWakeUpsByType(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	many := map[string]bool{"test": true}
	for i := range mostRefs {
		many[fmt.Sprint(i)] = true
	}
	var p Parking
	park := func(owner tenant.ID, types map[string]bool) *Waiter {
		return p.Park(&Filter{Owner: owner, Queues: []string{"a"}, Types: types})
	}
	other := park(owner, map[string]bool{"other": true})
	waiters := []*Waiter{
		park(owner, map[string]bool{"test": true, "other": true}), park(tenant.Platform, nil), park(owner, many),
		park(tenant.Platform, map[string]bool{"test": true}), park(owner, nil),
	}
	for n := range waiters {
		if woken := p.Wake(laneOf(owner, 1, "a"), false, 1); woken != 1 {
			t.Fatalf("wake-up %d woke %d claims", n, woken)
		}
		for i, w := range waiters {
			if w.isWoken() != (i <= n) {
				t.Errorf("after %d wake-ups claim %d: woken %v", n+1, i, w.isWoken())
			}
		}
	}
	if p.Wake(laneOf(owner, 1, "a"), false, 1) != 0 || other.isWoken() {
		t.Error("a claim for another type was woken")
	}
	for _, w := range append(waiters, other) {
		p.Leave(w)
	}
	if len(p.sleeping) != 0 {
		t.Errorf("%d lists are left", len(p.sleeping))
	}
}
