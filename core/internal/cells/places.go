package cells

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/cell"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
)

// Unlisted is the place of a tenant in a cell that this core's file does not list: the core was
// started before the cell was added.
const Unlisted = -1

// placeAge is how long an entry is right without another look at the directory: a tenant can be moved. What is written
// to the cell that it has left is refused there however long that was ago; this bounds what is read there.
const placeAge = 10 * time.Second

// Places is this core's copy of which cell has which tenant. It is safe for concurrent use.
type Places struct {
	home *cell.Cell
	// byName are the cells' indices; "" is the home cell.
	byName map[string]int
	// left is called when a tenant was moved, with the cell that it was in; it may be nil.
	left func(owner tenant.ID, cell int)

	mu    sync.RWMutex
	known map[tenant.ID]place
}

type place struct {
	cell int
	// at is when the directory said so, or when a cell refused the tenant and the entry was found doubtful.
	at      time.Time
	doubted bool
}

// NewPlaces makes an empty copy. names are the cells', home first; left, unless it is nil, is called when a tenant was
// moved, with the cell that it was in.
func NewPlaces(home *cell.Cell, names []string, left func(tenant.ID, int)) *Places {
	p := &Places{home: home, left: left, byName: map[string]int{"": 0}, known: map[tenant.ID]place{}}
	for i, name := range names {
		p.byName[name] = i
	}
	return p
}

// Known gives a tenant's cell if it is in the copy. One that is not sure is to be looked up, where the home cell answers.
func (p *Places) Known(owner tenant.ID) (cell int, known, sure bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	entry, known := p.known[owner]
	return entry.cell, known, known && !entry.doubted && time.Since(entry.at) < placeAge
}

// Note adds a tenant whose row is in its cell, by what the directory said at a time. What it said before the entry is ignored.
func (p *Places) Note(owner tenant.ID, cell int, at time.Time) {
	p.mu.Lock()
	before, known := p.known[owner]
	newer := at.After(before.at)
	if newer {
		p.known[owner] = place{cell: cell, at: at}
	}
	p.mu.Unlock()
	if newer && known && before.cell != cell && p.left != nil {
		p.left(owner, before.cell)
	}
}

// Doubt says that a cell refused a tenant: it may be in another one by now.
func (p *Places) Doubt(owner tenant.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if entry, known := p.known[owner]; known {
		entry.doubted, entry.at = true, time.Now()
		p.known[owner] = entry
	}
}

// Find asks the home cell. A tenant without a row is the home's, as with one database: its caller was
// authenticated by a key.
func (p *Places) Find(ctx context.Context, owner tenant.ID) (int, error) {
	rows, err := p.home.Tenants.Copies(ctx, []tenant.ID{owner})
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
