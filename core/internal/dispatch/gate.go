package dispatch

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// tenantLocks lets one of a tenant's through at a time. PostgreSQL would make them wait
// for each other anyhow, each with a connection in its hands: one tenant could hold
// the whole pool that way. Here they wait with nothing.
type tenantLocks struct {
	mu      sync.Mutex
	tenants map[tenant.ID]*tenantLock
}

type tenantLock struct {
	// free holds one token when nobody is through.
	free chan struct{}
	// users counts who is through or waits; at 0 the turnstile is forgotten.
	users int
}

// enter waits until the tenants' turn has come, and gives what ends it; the end of
// ctx ends the wait. Without tenants there is no wait.
func (g *tenantLocks) enter(ctx context.Context, tenants []tenant.ID) (leave func(), err error) {
	// In one order for everybody, so that two never wait for each other in a circle.
	ids := slices.Clone(tenants)
	slices.SortFunc(ids, func(a, b tenant.ID) int { return strings.Compare(string(a[:]), string(b[:])) })
	var passed []tenant.ID
	leave = func() {
		for _, id := range slices.Backward(passed) {
			g.leave(id, true)
		}
	}
	for _, id := range slices.Compact(ids) {
		select {
		case <-g.join(id).free:
			passed = append(passed, id)
		case <-ctx.Done():
			g.leave(id, false)
			leave()
			return nil, context.Cause(ctx)
		}
	}
	return leave, nil
}

func (g *tenantLocks) join(id tenant.ID) *tenantLock {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tenants == nil {
		g.tenants = map[tenant.ID]*tenantLock{}
	}
	one := g.tenants[id]
	if one == nil {
		one = &tenantLock{free: make(chan struct{}, 1)}
		one.free <- struct{}{}
		g.tenants[id] = one
	}
	one.users++
	return one
}

func (g *tenantLocks) leave(id tenant.ID, through bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.tenants[id]
	if through {
		one.free <- struct{}{}
	}
	if one.users--; one.users == 0 {
		delete(g.tenants, id)
	}
}
