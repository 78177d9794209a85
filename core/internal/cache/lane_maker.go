package cache

import (
	"context"
	"fmt"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/lanes"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// laneMakers is how many tenants' lanes are made at once: each holds a connection, maybe while it
// waits for another core's lock.
const laneMakers = 4

// LaneMaker makes lanes that are not cached.
type LaneMaker struct {
	lanes *Lanes
	store *cell.Cell
	// locks lets one call for each tenant make lanes, slots bounds the tenants.
	locks TenantLocks
	slots chan struct{}
}

func newLaneMaker(lanes *Lanes, store *cell.Cell) *LaneMaker {
	return &LaneMaker{lanes: lanes, store: store, slots: make(chan struct{}, laneMakers)}
}

// Ensure gives lanes of one tenant, cached or made now; they are committed when it returns. While
// it waits, for the tenant's other calls or for a connection, it holds nothing that another tenant
// needs.
func (m *LaneMaker) Ensure(ctx context.Context, owner tenant.ID, asks []lanes.Ask) ([]lanes.Made, error) {
	leave, err := m.locks.Enter(ctx, []tenant.ID{owner})
	if err != nil {
		return nil, fmt.Errorf("%w: other lanes of the tenant are made: %w", store.ErrOverloaded, err)
	}
	defer leave()
	made := make([]lanes.Made, len(asks))
	var unknown []lanes.Ask
	var places []int
	for i := range asks { // the previous holder may have made them
		var found bool
		if made[i], found = m.lanes.Find(&asks[i]); !found {
			unknown, places = append(unknown, asks[i]), append(places, i)
		}
	}
	if len(unknown) == 0 {
		return made, nil
	}
	select {
	case m.slots <- struct{}{}:
		defer func() { <-m.slots }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: lanes of other tenants are made: %w", store.ErrOverloaded, context.Cause(ctx))
	}
	fresh, err := m.store.Lanes.Ensure(ctx, owner, unknown)
	if err != nil {
		return nil, err
	}
	for i, place := range places {
		made[place] = fresh[i]
	}
	m.lanes.Made(unknown, fresh)
	return made, nil
}

// EnsureOne gives one lane, cached or made now.
func (m *LaneMaker) EnsureOne(ctx context.Context, key lanes.Key) (lanes.Lane, error) {
	ask := lanes.Ask{Key: key, RequestedBy: key.User}
	made, found := m.lanes.Find(&ask)
	if !found {
		all, err := m.Ensure(ctx, key.Tenant, []lanes.Ask{ask})
		if err != nil {
			return lanes.Lane{}, err
		}
		made = all[0]
	}
	if made.Refused != 0 {
		return lanes.Lane{}, lanes.ErrTooMany
	}
	return made.Lane, nil
}
