package scheduler

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/claim"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// RetryEvery and RetryMost bound how often lanes under full caps are asked again without a sign that
// capacity is free: so many of a tenant's, in turn, in such a time. It is the net for signs that are lost.
const (
	RetryEvery = 250 * time.Millisecond
	RetryMost  = 10
)

// retryTenants bounds the tenants of one poll.
const retryTenants = 20

// throttled are lanes with lists in which a cap or a rate keeps jobs waiting. Those under full caps are capped:
// neither polls nor claims ask them again until capacity is released, since each costs an exact count. Those
// under a rate get capacity as time passes, so polls find them.
type throttled struct {
	tenants map[tenant.ID]*throttledLanes
	number  uint64
}

// throttledLanes are those of one tenant.
type throttledLanes struct {
	lanes map[lanes.ID]throttle
	// shared are lanes that any end of the tenant's jobs may free, users those where only their user's cap is full.
	shared map[lanes.ID]struct{}
	users  map[string]map[lanes.ID]struct{}
	// order are the capped lanes, those that have waited longest first; some may be throttled no longer, or anew.
	order   []throttledTurn
	retried time.Time
}

type throttle struct {
	lane   lanes.Lane
	full   claim.FullCaps
	number uint64
}

type throttledTurn struct {
	lane   lanes.ID
	number uint64
}

func (t *throttled) add(lane lanes.Lane, full claim.FullCaps) {
	t.remove(lane)
	if t.tenants == nil {
		t.tenants = map[tenant.ID]*throttledLanes{}
	}
	of := t.tenants[lane.Tenant]
	if of == nil {
		of = &throttledLanes{
			lanes: map[lanes.ID]throttle{}, shared: map[lanes.ID]struct{}{}, users: map[string]map[lanes.ID]struct{}{},
		}
		t.tenants[lane.Tenant] = of
	}
	t.number++
	of.lanes[lane.ID] = throttle{lane, full, t.number}
	if !full.OnlyUser() {
		of.shared[lane.ID] = struct{}{}
	} else {
		if of.users[lane.User] == nil {
			of.users[lane.User] = map[lanes.ID]struct{}{}
		}
		of.users[lane.User][lane.ID] = struct{}{}
	}
	if len(full) > 0 {
		of.order = append(of.order, throttledTurn{lane.ID, t.number})
		of.compact()
	}
}

// compact drops turns that are over once they are the larger part.
func (t *throttledLanes) compact() {
	const spare = 100
	if len(t.order) < 2*len(t.lanes)+spare {
		return
	}
	kept := make([]throttledTurn, 0, len(t.lanes))
	for _, one := range t.order {
		if t.lanes[one.lane].number == one.number {
			kept = append(kept, one)
		}
	}
	t.order = kept
}

func (t *throttled) remove(lane lanes.Lane) {
	of := t.tenants[lane.Tenant]
	if of == nil {
		return
	}
	delete(of.lanes, lane.ID)
	delete(of.shared, lane.ID)
	if own := of.users[lane.User]; own != nil {
		if delete(own, lane.ID); len(own) == 0 {
			delete(of.users, lane.User)
		}
	}
	if len(of.lanes) == 0 {
		delete(t.tenants, lane.Tenant)
	}
}

// capped says whether the lane is under a full cap, as far as is known.
func (t *throttled) capped(lane lanes.Lane) bool {
	of := t.tenants[lane.Tenant]
	return of != nil && len(of.lanes[lane.ID].full) > 0
}

// released gives up to most lanes that an end of one of lane's jobs may have freed, in any order.
func (t *throttled) released(lane lanes.Lane, allTenants bool, most int) (freed []lanes.ID) {
	take := func(ids map[lanes.ID]struct{}) {
		for id := range ids {
			if len(freed) == most {
				return
			}
			freed = append(freed, id)
		}
	}
	if own := t.tenants[lane.Tenant]; own != nil {
		if lane.User != "" {
			take(own.users[lane.User])
		}
		take(own.shared)
	}
	for other, of := range t.tenants {
		if !allTenants || len(freed) == most {
			break
		}
		if other != lane.Tenant {
			take(of.shared)
		}
	}
	return freed
}

// due gives the capped lanes of a tenant that are asked again now.
func (t *throttledLanes) due(now time.Time) (ids []lanes.ID) {
	if len(t.order) == 0 || now.Sub(t.retried) < RetryEvery {
		return nil
	}
	t.retried = now
	for len(t.order) > 0 && len(ids) < RetryMost {
		next := t.order[0]
		t.order = t.order[1:]
		if t.lanes[next.lane].number == next.number {
			ids = append(ids, next.lane)
		}
	}
	return ids
}

// Released makes up to most lanes ready that an end of one of lane's jobs may have freed, of its tenant or of
// all, and gives them in any order.
func (l *ReadyLists) Released(lane lanes.Lane, allTenants bool, most int) []lanes.Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unthrottle(l.throttled.released(lane, allTenants, most))
}

// Retry makes those capped lanes ready whose turn has come, of a tenant or of all.
func (l *ReadyLists) Retry(owner tenant.ID, now time.Time) []lanes.Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ids []lanes.ID
	if owner != tenant.Platform {
		if of := l.throttled.tenants[owner]; of != nil {
			ids = of.due(now)
		}
		return l.unthrottle(ids)
	}
	for _, of := range l.throttled.tenants { // in random order
		if ids = append(ids, of.due(now)...); len(ids) >= retryTenants*RetryMost {
			break
		}
	}
	return l.unthrottle(ids)
}

// CapsChanged makes the capped lanes ready of which changed says that a cap that was full is another now.
func (l *ReadyLists) CapsChanged(changed func(lanes.Lane, claim.FullCaps) bool) []lanes.Lane {
	l.mu.Lock()
	var capped []throttle
	for _, of := range l.throttled.tenants {
		for _, one := range of.lanes {
			if len(one.full) > 0 {
				capped = append(capped, one)
			}
		}
	}
	l.mu.Unlock()
	var ids []lanes.ID
	for _, one := range capped {
		if changed(one.lane, one.full) {
			ids = append(ids, one.lane.ID)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unthrottle(ids)
}

// unthrottle makes lanes ready. The caller holds the lock.
func (l *ReadyLists) unthrottle(ids []lanes.ID) []lanes.Lane {
	lanes := make([]lanes.Lane, len(ids))
	for i, id := range ids {
		lanes[i] = l.of(id).lane
		l.throttled.remove(lanes[i])
		l.again(id)
	}
	return lanes
}

// WithoutCapped leaves out the lists of lanes that are known to be under a full cap.
func (l *ReadyLists) WithoutCapped(lists []claim.ReadyList) []claim.ReadyList {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.throttled.tenants) == 0 {
		return lists
	}
	kept := make([]claim.ReadyList, 0, len(lists))
	for _, list := range lists {
		if !l.isCapped(list.Lane) {
			kept = append(kept, list)
		}
	}
	return kept
}

// IsCapped says whether a lane is known to be under a full cap.
func (l *ReadyLists) IsCapped(id lanes.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.throttled.tenants) > 0 && l.isCapped(id)
}

func (l *ReadyLists) isCapped(id lanes.ID) bool {
	known := l.lanes[id]
	return known != nil && l.throttled.capped(known.lane)
}
