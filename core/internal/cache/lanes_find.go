package cache

import (
	"time"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

const (
	// laneTrust is how old what is known of a lane may be for a job to be stored in it:
	// one that was retired since is deleted queue.LaneRetired later, not sooner.
	laneTrust = time.Minute
	// fullFor is how long it is remembered that no lane could be made.
	fullFor = 5 * time.Second
	// rememberedFull bounds that memory.
	rememberedFull = 10_000
)

// fullKey is a bound that was found reached, and whose: for is empty where it is not
// one user's.
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

// Find answers an ask from memory: with a lane, or with a bound that was reached a
// moment ago.
func (l *Lanes) Find(ask *directory.LaneAsk) (made directory.MadeLane, found bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	made.LaneKey = ask.LaneKey
	if lane, ok := l.byKey[ask.LaneKey]; ok && l.trusted(lane.ID) {
		made.Lane = lane
		return made, true
	}
	bounds := []directory.LaneBound{directory.TenantLanes, directory.UsersLanes, directory.UserLanes}
	if _, there := l.settings[ask.InQueue()]; !there {
		bounds = append(bounds, directory.TenantQueues, directory.UsersQueues, directory.UserQueues)
	}
	for _, bound := range bounds {
		if ask.For == "" && bound != directory.TenantLanes && bound != directory.TenantQueues {
			continue
		}
		// Before the next refresh a lane that another core has made would be refused.
		if at, ok := l.full[fullOf(ask, bound)]; ok && time.Since(at) < fullFor && l.read.After(at) {
			made.Full = bound
			return made, true
		}
	}
	return made, false
}

// trusted says whether what is known of a lane is recent. It is called with the lock held.
func (l *Lanes) trusted(id directory.LaneID) bool {
	if time.Since(l.read) < laneTrust {
		return true
	}
	at, ok := l.young[id]
	return ok && time.Since(at) < laneTrust
}

// Made remembers what was made, and what could not be.
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
		l.byKey[lanes[i].LaneKey] = lanes[i].Lane // where it is known as retired
		l.young[lanes[i].ID] = now
	}
}
