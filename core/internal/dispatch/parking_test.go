package dispatch

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

func laneOf(owner tenant.ID, id directory.LaneID, name string, tags ...string) directory.Lane {
	return directory.Lane{ID: id, LaneKey: directory.NewLaneKey(owner, name, tags)}
}

func anyone(queues ...string) *Filter { return &Filter{Owner: tenant.Platform, Queues: queues} }

func (w *waiter) isWoken() bool { return len(w.woken) > 0 }

func TestOneJobWakesTheLongestWaiting(t *testing.T) {
	t.Parallel()
	var p parking
	waiters := make([]*waiter, 5)
	for i := range waiters {
		waiters[i] = p.park(anyone("a"))
	}
	for n := range waiters {
		p.wake(laneOf(uuid.New(), 1, "a"), false, 1)
		for i, w := range waiters {
			if w.isWoken() != (i <= n) {
				t.Fatalf("after %d wake-ups waiter %d: woken %v", n+1, i, w.isWoken())
			}
		}
	}
}

func TestWakeUpsGoToThoseWhoCanTakeTheJob(t *testing.T) {
	t.Parallel()
	owner := uuid.New()
	var p parking
	otherQueue := p.park(anyone("b"))
	otherTenant := p.park(&Filter{Owner: uuid.New(), Queues: []string{"a"}})
	without := p.park(&Filter{Owner: owner, Queues: []string{"a"}, Tags: map[string]bool{"x": true}})
	with := p.park(&Filter{Owner: owner, Queues: []string{"a"}, Tags: map[string]bool{"x": true, "y": true, "z": true}})
	p.wake(laneOf(owner, 1, "a", "y", "x"), false, 9)
	if otherQueue.isWoken() || otherTenant.isWoken() || without.isWoken() || !with.isWoken() {
		t.Errorf("woken: queue %v, tenant %v, too few tags %v, right %v",
			otherQueue.isWoken(), otherTenant.isWoken(), without.isWoken(), with.isWoken())
	}
}

func TestManyJobsWakeAsManyClaims(t *testing.T) {
	t.Parallel()
	var p parking
	waiters := make([]*waiter, 5)
	for i := range waiters {
		waiters[i] = p.park(anyone("a"))
	}
	p.wake(laneOf(uuid.New(), 1, "a"), false, 3)
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

func TestLeavingTellsOfAWakeUpThatWasNotUsed(t *testing.T) {
	t.Parallel()
	var p parking
	first, second := p.park(anyone("a")), p.park(anyone("a"))
	p.wake(laneOf(uuid.New(), 7, "a"), false, 1)
	if lane, pending := p.leave(first); !pending || lane != 7 {
		t.Errorf("leave = %d, %v, want 7, true", lane, pending)
	}
	if _, pending := p.leave(second); pending {
		t.Error("a claim that nobody woke has a wake-up to pass on")
	}
	if n := p.count(); n != 0 {
		t.Errorf("%d claims are still parked", n)
	}
}

// Whoever wakes never waits, however many there are and whoever leaves meanwhile.
func TestParkingUnderLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const claims, jobs = 50, 400
		var p parking
		var group sync.WaitGroup
		var taken, left sync.Map
		job := laneOf(uuid.New(), 1, "a")
		pool := make(chan struct{}, jobs)
		for i := range claims {
			group.Go(func() {
				for {
					w := p.park(anyone("a"))
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
						case <-w.woken:
							p.again(w)
						case <-over:
							break looking
						}
					}
					if _, pending := p.leave(w); pending {
						p.wake(job, false, 1)
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
			p.wake(job, false, 1)
		}
		group.Wait()
		if n := len(pool); n != 0 {
			t.Errorf("%d jobs were left although claims waited", n)
		}
		if n := p.count(); n != 0 {
			t.Errorf("%d claims are still parked", n)
		}
	})
}
