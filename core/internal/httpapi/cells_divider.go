package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Divider answers gateways where there are several cells. It divides a call by the cells of its items'
// tenants, and puts the answers together in order. An item's cell is asked as if it were the only one:
// by the handlers of its own Server.
//
// Four kinds of items are of no single cell:
//
//	of the directory        the home cell, and then the copies (cells_directory.go)
//	of a platform's worker  claims ask all cells; what names a lease goes to its tenant's cell (cells_workers.go)
//	lists of an operator    read in all cells and merged (cells_lists.go)
//	look-ups of keys        the home cell, without it the copies (cells_directory.go)
type Divider struct {
	// Cells are all cells, the home cell first.
	Cells  []*CellDoor
	Places *cells.Places
	Copier *cells.Copier

	mu    sync.Mutex
	turns cells.Turns
}

// CellDoor is one cell as the Divider sees it.
type CellDoor struct {
	Name    string
	Weight  int
	Accepts bool
	Gate    *cells.Gate
	routes  atomic.Pointer[cellRoutes]
}

// cellRoutes are the handlers of a cell whose engine has started.
type cellRoutes struct {
	server *Server
	serve  map[string]handler
	target cells.Target
}

// Open lets calls in: the cell's engine has started. target is where the directory is copied to.
func (c *CellDoor) Open(server *Server, target cells.Target) {
	if server.types == nil { // Handler makes them for the home cell only
		server.types = server.newTypes()
	}
	c.routes.Store(&cellRoutes{server: server, serve: server.routes(), target: target})
	c.Gate.Set(true)
}

// homeTime bounds what is asked of the home cell about the directory, with a place in the way of a call.
const homeTime = 5 * time.Second

// Handler makes the router and registers the metrics of its routes, as Server.Handler does for one
// cell. The home cell's server is the door.
func (d *Divider) Handler(registry prometheus.Registerer) http.Handler {
	home := d.home()
	probes := map[string]handler{"/livez": home.livez, "/readyz": d.readyz}
	routes := home.routes()
	for path := range routes {
		routes[path] = d.byTenant(path)
	}
	maps.Copy(routes, d.ownRoutes())
	return home.router(registry, probes, routes)
}

// home is the home cell's server; its engine starts before all others.
func (d *Divider) home() *Server { return d.Cells[0].routes.Load().server }

// ownRoutes are the routes that are not divided by tenant alone.
func (d *Divider) ownRoutes() map[string]handler {
	own := table(each(hop.GetReadiness, plain(d.readiness)))
	for _, some := range []map[string]handler{d.directoryRoutes(), d.workerRoutes(), d.listRoutes()} {
		maps.Copy(own, some)
	}
	return own
}

// cellOf gives the cell of a principal. Those without a tenant go to the home cell, which refuses them
// or serves the directory.
func (d *Divider) cellOf(ctx context.Context, p hop.Principal) (int, error) {
	owner, err := ofTenant(p)
	if err != nil {
		return 0, nil //nolint:nilerr // refused by the handler
	}
	return d.cellOfTenant(ctx, owner)
}

func (d *Divider) cellOfTenant(ctx context.Context, owner tenant.ID) (int, error) {
	before, known, sure := d.Places.Known(owner)
	if sure || known && !d.Cells[0].Gate.Open() {
		return before, nil
	}
	if !d.Cells[0].Gate.Open() {
		return 0, store.ErrUnavailable
	}
	ctx, leave := d.Cells[0].Gate.Through(ctx)
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, homeTime)
	defer cancel()
	asked := time.Now()
	found, err := d.Places.Find(ctx, owner)
	if err != nil && known && found != cells.Unlisted {
		return before, nil // as while the home cell is down
	}
	if err != nil {
		return 0, err
	}
	if known && found == before || !known && found == 0 {
		d.Places.Note(owner, found, asked)
		return found, nil
	}
	return found, d.enter(ctx, owner, found, asked)
}

// enter makes a cell ready for a tenant that this core has not known there: the cell has the tenant's row, and its engine
// has read it.
func (d *Divider) enter(ctx context.Context, owner tenant.ID, cell int, asked time.Time) error {
	routes, err := d.Cells[cell].answering()
	if err != nil {
		return err
	}
	if cell != 0 {
		return d.Copier.Tenant(ctx, owner, routes.target)
	}
	routes.target.Changed(ctx)
	d.Places.Note(owner, cell, asked)
	return nil
}

// answering gives the routes of a cell, store.ErrUnavailable where it does not answer.
func (c *CellDoor) answering() (*cellRoutes, error) {
	routes := c.routes.Load()
	if routes == nil || !c.Gate.Open() {
		return nil, fmt.Errorf("httpapi: the cell %s: %w", c.Name, store.ErrUnavailable)
	}
	return routes, nil
}

// ask asks one cell, until the moment at which the cell is found not to answer.
func (d *Divider) ask(ctx context.Context, cell int, path string, body []byte) (made response, err error) {
	routes, err := d.Cells[cell].answering()
	if err != nil {
		return response{}, err
	}
	ctx, leave := d.Cells[cell].Gate.Through(context.WithValue(ctx, placesKey{}, d.Places))
	defer leave()
	defer func() { // it may be in a goroutine of its own, where the middleware does not recover
		if failure := recover(); failure != nil {
			err = fmt.Errorf("httpapi: a handler panicked: %v\n%s", failure, stack())
		}
	}()
	made, err = routes.serve[path](ctx, body)
	return made, err
}

// byTenant divides a call by the cells of its items' tenants.
func (d *Divider) byTenant(path string) handler {
	return func(ctx context.Context, body []byte) (response, error) {
		items, err := decodeItems[json.RawMessage](body)
		if err != nil {
			return response{}, err
		}
		return d.divide(ctx, path, body, items)
	}
}

func (d *Divider) divide(ctx context.Context, path string, body []byte, items []hop.Item[json.RawMessage]) (response, error) {
	merged := newMerged(len(items))
	parts := make([][]int, len(d.Cells))
	for i := range items {
		cell, err := d.cellOf(ctx, items[i].Principal)
		if err != nil {
			merged.refuse(ctx, i, &items[i], err)
			continue
		}
		parts[cell] = append(parts[cell], i)
	}
	var group sync.WaitGroup
	for cell, places := range parts {
		if len(places) == 0 {
			continue
		}
		group.Go(func() {
			part := body
			if len(places) < len(items) {
				var err error
				if part, err = envelopeOf(items, places); err != nil {
					merged.refuseAll(ctx, items, places, err)
					return
				}
			}
			made, err := d.ask(ctx, cell, path, part)
			merged.take(ctx, items, places, made, err)
		})
	}
	group.Wait()
	return merged.response()
}

// envelopeOf is a call with some of the items.
func envelopeOf(items []hop.Item[json.RawMessage], places []int) ([]byte, error) {
	some := hop.Envelope[json.RawMessage]{Items: make([]hop.Item[json.RawMessage], len(places))}
	for i, place := range places {
		some.Items[i] = items[place]
	}
	return marshal(some)
}
