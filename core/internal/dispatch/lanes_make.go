package dispatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/null"
	"github.com/forgequeue/forgequeue/core/internal/store"
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
	// laneMakers is how many tenants' lanes are made at once: each holds a connection,
	// and maybe waits for another core's.
	laneMakers = 4
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

// find answers an ask from memory: with a lane, or with a bound that was reached a
// moment ago.
func (l *Lanes) find(ask *directory.LaneAsk) (made directory.MadeLane, found bool) {
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

// Make gives lanes of one tenant, known or made now; they are committed when it
// returns. While it waits, for the tenant's other asks or for a connection, it holds
// nothing that another tenant needs.
func (l *Lanes) Make(ctx context.Context, owner tenant.ID, asks []directory.LaneAsk) ([]directory.MadeLane, error) {
	leave, err := l.turn.enter(ctx, []tenant.ID{owner})
	if err != nil {
		return nil, fmt.Errorf("%w: other lanes of the tenant are made: %w", store.ErrOverloaded, err)
	}
	defer leave()
	made := make([]directory.MadeLane, len(asks))
	var unknown []directory.LaneAsk
	var places []int
	for i := range asks { // whoever had the turn before may have made them
		var found bool
		if made[i], found = l.find(&asks[i]); !found {
			unknown, places = append(unknown, asks[i]), append(places, i)
		}
	}
	if len(unknown) == 0 {
		return made, nil
	}
	select {
	case l.makers <- struct{}{}:
		defer func() { <-l.makers }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: lanes of other tenants are made: %w", store.ErrOverloaded, context.Cause(ctx))
	}
	fresh, err := l.store.MakeLanes(ctx, owner, unknown)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		made[place] = fresh[i]
	}
	l.made(unknown, fresh)
	return made, nil
}

// made remembers what was made, and what could not be.
func (l *Lanes) made(asks []directory.LaneAsk, lanes []directory.MadeLane) {
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

// laneBook is the lanes of some calls, or why there is none.
type laneBook map[directory.LaneAsk]directory.MadeLane

// laneAsks are the lanes that a call's jobs need, one for each; zero for one that is refused.
func (d *Dispatcher) laneAsks(call *SubmitCall) []directory.LaneAsk {
	asks := make([]directory.LaneAsk, len(call.Jobs))
	for i := range call.Jobs {
		if call.Refused != nil && call.Refused[i] != nil {
			continue
		}
		request := &call.Jobs[i]
		asks[i] = directory.LaneAsk{
			LaneKey: d.laneOf(call.Tenant, queueOf(request), request.Tags, request.User), For: null.Or(request.User, ""),
		}
	}
	return asks
}

// lanesOf gives the lanes of all calls, one for each job, and makes those that are not known: each
// tenant's with one statement, all tenants' side by side. It says Alone of a shared call
// for which PostgreSQL would have to be asked, and why others cannot be served.
func (d *Dispatcher) lanesOf(ctx context.Context, calls []SubmitCall, answers []SubmitAnswer) [][]directory.MadeLane {
	book := laneBook{}
	// Each job's lane is asked for once: limits that change meanwhile would give another.
	asks := make([][]directory.LaneAsk, len(calls))
	wanted := map[tenant.ID]map[directory.LaneAsk]bool{}
	for i := range calls {
		call := &calls[i]
		if call.Shared && !d.limits.known(call.Tenant) {
			answers[i].Alone = true
			continue
		}
		if answers[i].Err = d.limits.Know(ctx, call.Tenant); answers[i].Err != nil {
			continue
		}
		asks[i] = d.laneAsks(call)
		unknown := d.lookUpLanes(call, asks[i], book)
		switch {
		case len(unknown) == 0:
		case call.Shared:
			answers[i].Alone = true
		case wanted[call.Tenant] == nil:
			wanted[call.Tenant] = unknown
		default:
			maps.Copy(wanted[call.Tenant], unknown)
		}
	}
	if len(wanted) > 0 {
		failed := d.makeLanes(ctx, wanted, book)
		for i := range calls {
			if !answers[i].Alone && answers[i].Err == nil {
				answers[i].Err = failed[calls[i].Tenant]
			}
		}
	}
	lanes := make([][]directory.MadeLane, len(calls))
	for i := range asks {
		lanes[i] = make([]directory.MadeLane, len(asks[i]))
		for j, ask := range asks[i] {
			lanes[i][j] = book[ask]
		}
	}
	return lanes
}

// lookUpLanes adds to the book what is known of the lanes of a call, and gives the others.
func (d *Dispatcher) lookUpLanes(call *SubmitCall, asks []directory.LaneAsk, book laneBook) map[directory.LaneAsk]bool {
	unknown := map[directory.LaneAsk]bool{}
	for i, ask := range asks {
		if call.Refused != nil && call.Refused[i] != nil {
			continue
		}
		if _, ok := book[ask]; ok {
			continue
		}
		if lane, ok := d.lanes.find(&ask); ok {
			book[ask] = lane
		} else {
			unknown[ask] = true
		}
	}
	return unknown
}

// makeLanes makes lanes of several tenants, and says for which it could not.
func (d *Dispatcher) makeLanes(ctx context.Context, wanted map[tenant.ID]map[directory.LaneAsk]bool, book laneBook) map[tenant.ID]error {
	var mu sync.Mutex
	failed := map[tenant.ID]error{}
	var all sync.WaitGroup
	for owner, asks := range wanted {
		all.Go(func() {
			list := slices.Collect(maps.Keys(asks))
			made, err := d.lanes.Make(ctx, owner, list)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[owner] = err
			}
			for i, lane := range made {
				book[list[i]] = lane
				if lane.Full != 0 {
					d.RefreshSoon() // from then on the bound is answered from memory
				}
			}
		})
	}
	all.Wait()
	return failed
}

// For gives one lane, known or made now.
func (l *Lanes) For(ctx context.Context, key directory.LaneKey) (directory.Lane, error) {
	ask := directory.LaneAsk{LaneKey: key, For: key.User}
	made, found := l.find(&ask)
	if !found {
		all, err := l.Make(ctx, key.Tenant, []directory.LaneAsk{ask})
		if err != nil {
			return directory.Lane{}, err
		}
		made = all[0]
	}
	if made.Full != 0 {
		return directory.Lane{}, directory.ErrTooManyLanes
	}
	return made.Lane, nil
}
