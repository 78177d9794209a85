package cells

import (
	"context"
	"fmt"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Unlisted is the place of a tenant in a cell that this core's file does not list: the core was
// started before the cell was added.
const Unlisted = -1

// Places is this core's copy of which cell has which tenant. A tenant stays in its cell, so an entry is
// right for ever. It is safe for concurrent use.
type Places struct {
	home *cell.Cell
	// byName are the cells' indices; "" is the home cell.
	byName map[string]int

	mu    sync.RWMutex
	known map[tenant.ID]int
}

// NewPlaces makes an empty copy. names are the cells', home first.
func NewPlaces(home *cell.Cell, names []string) *Places {
	p := &Places{home: home, byName: map[string]int{"": 0}, known: map[tenant.ID]int{}}
	for i, name := range names {
		p.byName[name] = i
	}
	return p
}

// Known gives a tenant's cell if it is in the copy.
func (p *Places) Known(owner tenant.ID) (cell int, known bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	cell, known = p.known[owner]
	return cell, known
}

// Note adds a tenant whose row is in its cell.
func (p *Places) Note(owner tenant.ID, cell int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.known[owner] = cell
}

// Find asks the home cell. A tenant without a row is the home's, as with one database: its caller was
// authenticated by a key.
func (p *Places) Find(ctx context.Context, owner tenant.ID) (int, error) {
	rows, err := p.home.Tenants(ctx, []tenant.ID{owner})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return p.index(rows[0].Cell)
}

func (p *Places) index(name string) (int, error) {
	i, listed := p.byName[name]
	if !listed {
		return Unlisted, fmt.Errorf("cells: %w: the tenant is in the cell %q, which FORGEQUEUE_CELLS of this core does not list", store.ErrUnavailable, name)
	}
	return i, nil
}
