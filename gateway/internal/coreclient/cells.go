package coreclient

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// oneCell is a Cell, and what the Client knows of it beyond that.
type oneCell struct {
	*cellclient.Cell

	// late says that others waited for it in vain.
	late atomic.Bool
}

func (c *Client) home() *oneCell { return c.cells[0] }

// alone says that there is one cell.
func (c *Client) alone() bool { return len(c.cells) == 1 }

// cellOf is the cell of a tenant; what belongs to no tenant is the home cell's.
func (c *Client) cellOf(tenant string) *oneCell {
	if c.alone() {
		return c.home()
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if cell := c.places[tenant]; cell != nil {
		return cell
	}
	return c.home()
}

// named is the cell of a name, nil where FORGEQUEUE_CORE_URL has none; "" is the home cell.
func (c *Client) named(name string) *oneCell {
	for _, cell := range c.cells {
		if cell.Name() == name || name == "" {
			return cell
		}
	}
	return nil
}

// place notes the cell of a tenant.
func (c *Client) place(tenant string, cell *oneCell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cell == c.home() {
		delete(c.places, tenant)
		return
	}
	c.places[tenant] = cell
}

// Call asks core for one item's result, in the cell of its tenant. The deadline is ctx's, and is sent to
// core. The error is a *problem.Problem where core refused the call as a whole,
// or wraps cellclient's ErrUnavailable, ErrOverloaded, ErrOutcomeUnknown, ErrCutShort, ErrNoPlace,
// ErrRefusesUs or ErrContract. A refusal of the item itself is no error: it is in
// the Result.
//
// A call is an envelope of its own unless it is Shared: then the items
// of concurrent callers are sent in one.
func Call[Req, Resp any](ctx context.Context, c *Client, of hop.Op[Req, Resp], how cellclient.How, item hop.Item[Req]) (hop.Result[Resp], error) {
	if c.alone() || of.Directory {
		return cellclient.Call(ctx, c.home().Cell, of, how, item)
	}
	if answer, is, err := inSeveral(ctx, c, of, how, item); is {
		return answer, err
	}
	at := c.cellOf(item.Principal.Tenant)
	answer, err := cellclient.Call(ctx, at.Cell, of, how, item)
	if hasMoved(answer.Problem, err) && c.findAgain(ctx, item.Principal) != at {
		return cellclient.Call(ctx, c.cellOf(item.Principal.Tenant).Cell, of, how, item)
	}
	return answer, err
}

// hasMoved says that a cell refused a tenant, which may be in another one by now.
func hasMoved(refused *problem.Problem, err error) bool {
	if whole, is := problem.From(err); is {
		refused = whole
	}
	return refused != nil && refused.Code == problem.TenantMoving
}

// findAgain asks the home cell where a tenant is.
func (c *Client) findAgain(ctx context.Context, p hop.Principal) *oneCell {
	switch { // otherwise it stays where it was
	case p.IsPerson():
		_, _, _ = c.LookUpTenant(ctx, p.Tenant)
	case p.KeyID != "":
		_, _, _ = c.LookUpKey(ctx, p.KeyID)
	}
	return c.cellOf(p.Tenant)
}

// LookUpKey reads one API key, and notes the cell of its tenant; found is false for one that is unknown, revoked or
// expired. While the home cell does not answer, the copies in the other cells do.
func (c *Client) LookUpKey(ctx context.Context, keyID string) (key hop.KeyRecord, found bool, err error) {
	return c.lookUp(ctx, func(ctx context.Context, cell *oneCell) (looked, error) {
		key, found, err := cell.LookUpKey(ctx, keyID)
		return looked{key, found}, err
	})
}

// LookUpTenant reads what a key has of its tenant, and notes the tenant's cell, as LookUpKey does.
func (c *Client) LookUpTenant(ctx context.Context, tenant string) (key hop.KeyRecord, found bool, err error) {
	return c.lookUp(ctx, func(ctx context.Context, cell *oneCell) (looked, error) {
		key, found, err := cell.LookUpTenant(ctx, tenant)
		return looked{key, found}, err
	})
}

func (c *Client) lookUp(ctx context.Context, lookIn func(context.Context, *oneCell) (looked, error)) (key hop.KeyRecord, found bool, err error) {
	if c.alone() {
		only, err := lookIn(ctx, c.home())
		return only.key, only.found, err
	}
	home := within(ctx, c.home(), lookIn, nil)
	if home.err != nil {
		return c.lookUpCopy(ctx, lookIn, home.err)
	}
	key = home.value.key
	if !home.value.found || key.Tenant == "" {
		return key, home.value.found, nil
	}
	cell := c.named(key.Cell)
	if cell == nil {
		return key, false, fmt.Errorf("%w: the tenant is in the cell %q, which FORGEQUEUE_CORE_URL does not name", cellclient.ErrUnavailable, key.Cell)
	}
	c.place(key.Tenant, cell)
	if cell == c.home() {
		return key, true, nil
	}
	// Job types lie with the jobs. A cell that does not answer must not seem to have none.
	types, err := c.ReadTypes(ctx, key.Tenant)
	key.TypesVersion = types.Version
	return key, err == nil, err
}

// looked is a key as one cell has it.
type looked struct {
	key   hop.KeyRecord
	found bool
}

// lookUpCopy looks a key up in the cells that are not the home. One that none of them has may be a key of the home's tenants.
func (c *Client) lookUpCopy(ctx context.Context, lookIn func(context.Context, *oneCell) (looked, error), why error) (hop.KeyRecord, bool, error) {
	for _, answer := range inCells(ctx, c.cells[1:], nil, lookIn) {
		if answer.err != nil || !answer.value.found {
			continue
		}
		key := answer.value.key
		if key.Tenant != "" {
			key.Cell = answer.cell.Name()
			c.place(key.Tenant, answer.cell)
		}
		return key, true, nil
	}
	return hop.KeyRecord{}, false, why
}

// Ready reads the readiness of the cores of all cells: ok, degraded or draining; degraded where some cells do not answer. It
// is an error where none does.
func (c *Client) Ready(ctx context.Context) (status string, err error) {
	if c.alone() {
		return c.home().Ready(ctx)
	}
	answered, ok := 0, 0
	for _, answer := range inCells(ctx, c.cells, nil, func(ctx context.Context, cell *oneCell) (string, error) { return cell.Ready(ctx) }) {
		switch {
		case answer.err != nil:
			err = answer.err
			continue
		case answer.value == "ok":
			ok++
		}
		answered++
	}
	switch {
	case answered == 0:
		return "", err
	case ok == len(c.cells):
		return "ok", nil
	}
	return "degraded", nil
}
