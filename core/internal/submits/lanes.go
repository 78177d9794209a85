package submits

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// laneMap is the lanes of some calls, by request.
type laneMap map[lanes.Ask]lanes.Made

// laneAsks are the lanes that a call's jobs need, one for each; zero for a refused job.
func (s *Submits) laneAsks(call *Call) []lanes.Ask {
	asks := make([]lanes.Ask, len(call.Jobs))
	for i := range call.Jobs {
		if call.Refused != nil && call.Refused[i] != nil {
			continue
		}
		request := &call.Jobs[i]
		costs := s.costsOf(call.Tenant, request)
		asks[i] = lanes.Ask{
			Key: s.cached.LaneOf(call.Tenant, queueOf(request), request.Type, request.Tags, request.User, keyOf(request, costs), costs != nil), RequestedBy: store.OrElse(request.User, ""),
		}
	}
	return asks
}

// lanesOf gives the lanes of all calls, one for each job, and makes those that are not cached: each
// tenant's with one statement, all tenants' in parallel. A shared call that would have to ask
// PostgreSQL is answered RetryUnbatched.
func (s *Submits) lanesOf(ctx context.Context, calls []Call, answers []Answer) [][]lanes.Made {
	found := laneMap{}
	// Each job's lane is computed once: after a change of limits it would be another.
	asks := make([][]lanes.Ask, len(calls))
	wanted := map[tenant.ID]map[lanes.Ask]bool{}
	for i := range calls {
		call := &calls[i]
		if answers[i].RetryUnbatched || answers[i].Err != nil {
			continue
		}
		if call.Shared && !s.cached.Limits.Known(call.Tenant) {
			answers[i].RetryUnbatched = true
			continue
		}
		if answers[i].Err = s.cached.Limits.Load(ctx, call.Tenant); answers[i].Err != nil {
			continue
		}
		asks[i] = s.laneAsks(call)
		unknown := s.cachedLanes(call, asks[i], found)
		switch {
		case len(unknown) == 0:
		case call.Shared:
			answers[i].RetryUnbatched = true
		case wanted[call.Tenant] == nil:
			wanted[call.Tenant] = unknown
		default:
			maps.Copy(wanted[call.Tenant], unknown)
		}
	}
	if len(wanted) > 0 {
		failed := s.makeLanes(ctx, wanted, found)
		for i := range calls {
			if !answers[i].RetryUnbatched && answers[i].Err == nil && lacks(&calls[i], asks[i], found) {
				answers[i].Err = failed[calls[i].Tenant]
			}
		}
	}
	all := make([][]lanes.Made, len(calls))
	for i := range asks {
		all[i] = make([]lanes.Made, len(asks[i]))
		for j, ask := range asks[i] {
			all[i][j] = found[ask]
		}
	}
	return all
}

// lacks says whether a lane that the call needs was not found: a failure to make lanes is not one of calls that need
// none.
func lacks(call *Call, asks []lanes.Ask, found laneMap) bool {
	for i, ask := range asks {
		if call.Refused != nil && call.Refused[i] != nil {
			continue
		}
		if _, ok := found[ask]; !ok {
			return true
		}
	}
	return false
}

// cachedLanes adds the cached lanes of a call to found, and gives the others.
func (s *Submits) cachedLanes(call *Call, asks []lanes.Ask, found laneMap) map[lanes.Ask]bool {
	unknown := map[lanes.Ask]bool{}
	for i, ask := range asks {
		if call.Refused != nil && call.Refused[i] != nil {
			continue
		}
		if _, ok := found[ask]; ok {
			continue
		}
		if lane, ok := s.cached.Lanes.Find(&ask); ok {
			found[ask] = lane
		} else {
			unknown[ask] = true
		}
	}
	return unknown
}

// makeLanes makes lanes of several tenants, and gives the errors by tenant.
func (s *Submits) makeLanes(ctx context.Context, wanted map[tenant.ID]map[lanes.Ask]bool, found laneMap) map[tenant.ID]error {
	var mu sync.Mutex
	failed := map[tenant.ID]error{}
	var all sync.WaitGroup
	for owner, asks := range wanted {
		all.Go(func() {
			list := slices.Collect(maps.Keys(asks))
			made, err := s.cached.Maker.Ensure(ctx, owner, list)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[owner] = err
			}
			for i, lane := range made {
				found[list[i]] = lane
				if lane.Refused != 0 {
					s.publisher.RefreshSoon() // from then on the bound is answered from the cache
				}
			}
		})
	}
	all.Wait()
	return failed
}
