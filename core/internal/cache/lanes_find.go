package cache

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// laneTrust is how old a cached lane may be for a job to be stored in it: a retired lane is
	// deleted lanes.RetiredTime later, not sooner.
	laneTrust = time.Minute
	// fullFor is how long a reached bound is cached.
	fullFor = 5 * time.Second
	// rememberedFull bounds that cache.
	rememberedFull = 10_000
)

// fullKey is a bound that was reached, and its tenant; user is empty unless the bound is per user.
type fullKey struct {
	tenant tenant.ID
	bound  lanes.Bound
	user   string
}

func fullOf(ask *lanes.Ask, bound lanes.Bound) fullKey {
	key := fullKey{tenant: ask.Tenant, bound: bound}
	if bound == lanes.OfUser || bound == lanes.QueuesOfUser {
		key.user = ask.RequestedBy
	}
	return key
}

// Find answers a request from the cache: with a lane, or with a bound that was reached at most
// fullFor ago.
func (l *Lanes) Find(ask *lanes.Ask) (made lanes.Made, found bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	made.Key = ask.Key
	if lane, ok := l.byKey[ask.Key]; ok && l.trusted(lane.ID) {
		made.Lane = lane
		return made, true
	}
	if api.SystemQueue(ask.Queue) { // exempt, as in the table: a delivery cannot be refused
		return made, false
	}
	bounds := []lanes.Bound{lanes.OfTenant, lanes.OfUsers, lanes.OfUser}
	if _, there := l.settings[ask.InQueue()]; !there {
		bounds = append(bounds, lanes.QueuesOfTenant, lanes.QueuesOfUsers, lanes.QueuesOfUser)
	}
	for _, bound := range bounds {
		if ask.RequestedBy == "" && bound != lanes.OfTenant && bound != lanes.QueuesOfTenant {
			continue
		}
		// Before the next refresh a lane that another core has created would be refused.
		if at, ok := l.full[fullOf(ask, bound)]; ok && time.Since(at) < fullFor && l.read.After(at) {
			made.Refused = bound
			return made, true
		}
	}
	return made, false
}

// trusted says whether a cached lane is recent. The caller holds the lock.
func (l *Lanes) trusted(id lanes.ID) bool {
	if time.Since(l.read) < laneTrust {
		return true
	}
	at, ok := l.recent[id]
	return ok && time.Since(at) < laneTrust
}

// Made caches created lanes and reached bounds.
func (l *Lanes) Made(asks []lanes.Ask, lanes []lanes.Made) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for i := range lanes {
		if bound := lanes[i].Refused; bound != 0 {
			if len(l.full) >= rememberedFull {
				clear(l.full)
			}
			l.full[fullOf(&asks[i], bound)] = now
			continue
		}
		l.add(lanes[i].Lane)
		l.byKey[lanes[i].Key] = lanes[i].Lane // replaces a retired lane
		l.recent[lanes[i].ID] = now
	}
}
