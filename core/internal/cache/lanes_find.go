package cache

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

const (
	// laneTrust is how old a cached lane may be for a job to be stored in it: a retired lane is
	// deleted directory.LaneRetired later, not sooner.
	laneTrust = time.Minute
	// fullFor is how long a reached bound is cached.
	fullFor = 5 * time.Second
	// rememberedFull bounds that cache.
	rememberedFull = 10_000
)

// fullKey is a bound that was reached, and its tenant; user is empty unless the bound is per user.
type fullKey struct {
	tenant tenant.ID
	bound  directory.LaneBound
	user   string
}

func fullOf(ask *directory.LaneAsk, bound directory.LaneBound) fullKey {
	key := fullKey{tenant: ask.Tenant, bound: bound}
	if bound == directory.UserLanes || bound == directory.UserQueues {
		key.user = ask.For
	}
	return key
}

// Find answers a request from the cache: with a lane, or with a bound that was reached at most
// fullFor ago.
func (l *Lanes) Find(ask *directory.LaneAsk) (made directory.MadeLane, found bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	made.LaneKey = ask.LaneKey
	if lane, ok := l.byKey[ask.LaneKey]; ok && l.trusted(lane.ID) {
		made.Lane = lane
		return made, true
	}
	if api.SystemQueue(ask.Queue) { // exempt, as in the table: a delivery cannot be refused
		return made, false
	}
	bounds := []directory.LaneBound{directory.TenantLanes, directory.UsersLanes, directory.UserLanes}
	if _, there := l.settings[ask.InQueue()]; !there {
		bounds = append(bounds, directory.TenantQueues, directory.UsersQueues, directory.UserQueues)
	}
	for _, bound := range bounds {
		if ask.For == "" && bound != directory.TenantLanes && bound != directory.TenantQueues {
			continue
		}
		// Before the next refresh a lane that another core has created would be refused.
		if at, ok := l.full[fullOf(ask, bound)]; ok && time.Since(at) < fullFor && l.read.After(at) {
			made.Full = bound
			return made, true
		}
	}
	return made, false
}

// trusted says whether a cached lane is recent. The caller holds the lock.
func (l *Lanes) trusted(id directory.LaneID) bool {
	if time.Since(l.read) < laneTrust {
		return true
	}
	at, ok := l.recent[id]
	return ok && time.Since(at) < laneTrust
}

// Made caches created lanes and reached bounds.
func (l *Lanes) Made(asks []directory.LaneAsk, lanes []directory.MadeLane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for i := range lanes {
		if bound := lanes[i].Full; bound != 0 {
			if len(l.full) >= rememberedFull {
				clear(l.full)
			}
			l.full[fullOf(&asks[i], bound)] = now
			continue
		}
		l.add(lanes[i].Lane)
		l.byKey[lanes[i].LaneKey] = lanes[i].Lane // replaces a retired lane
		l.recent[lanes[i].ID] = now
	}
}
