package cache

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// TenantLocks serialises operations of one tenant. In PostgreSQL they would wait for the same lock
// with a connection each, and one tenant could hold the whole pool. Here they wait without a
// connection.
type TenantLocks struct {
	mu      sync.Mutex
	tenants map[tenant.ID]*tenantLock
}

type tenantLock struct {
	// free holds one token while the lock is free.
	free chan struct{}
	// users counts holders and waiters; at 0 the lock is deleted.
	users int
}

// Enter takes the tenants' locks and gives what releases them; the end of ctx ends the wait.
// Without tenants there is no wait.
func (g *TenantLocks) Enter(ctx context.Context, tenants []tenant.ID) (leave func(), err error) {
	// In one order for all callers, so that there is no deadlock.
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

func (g *TenantLocks) join(id tenant.ID) *tenantLock {
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

func (g *TenantLocks) leave(id tenant.ID, through bool) {
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
