package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// directoryRoutes serve the directory, which the home cell has. What others have copies of is copied
// before the answer where they answer; a duty copies the rest later.
func (d *Divider) directoryRoutes() map[string]handler {
	own := table(
		each(hop.CreateTenant, plain(d.createTenant)),
		each(hop.PatchTenant, plain(d.patchTenant)),
		each(hop.DeleteTenant, plain(d.deleteTenant)),
		each(hop.GetTenant, plain(d.getTenant)),
		each(hop.PutPlan, plain(d.putPlan)),
		each(hop.LookUpKey, plain(d.lookUpKey)),
	)
	for _, path := range []string{hop.ListTenants.Path, hop.GetPlan.Path, hop.ListPlans.Path, hop.ListKeys.Path} {
		own[path] = d.atHome(path)
	}
	for _, path := range []string{hop.CreateKey.Path, hop.RevokeKey.Path, hop.EndSessions.Path} {
		serve := d.atHome(path)
		own[path] = func(ctx context.Context, body []byte) (response, error) {
			made, err := serve(ctx, body)
			d.Copier.Kick()
			return made, err
		}
	}
	return own
}

// atHome serves all items in the home cell.
func (d *Divider) atHome(path string) handler {
	return func(ctx context.Context, body []byte) (response, error) {
		return d.ask(ctx, 0, path, body)
	}
}

// byHome asks the home cell one item.
func byHome[Req, Resp any](ctx context.Context, d *Divider, op hop.Op[Req, Resp], item hop.Item[Req]) (value Resp, err error) {
	answer, _ := single(ctx, d, 0, op, item)
	if answer.Problem != nil {
		return value, answer.Problem
	}
	return *answer.Value, nil
}

// createTenant makes a tenant in the cell with the most room.
func (d *Divider) createTenant(ctx context.Context, item hop.Item[hop.WithID[api.TenantRequest]]) (api.Tenant, error) {
	home, err := d.Cells[0].answering()
	if err != nil {
		return api.Tenant{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, homeTime)
	defer cancel()
	id, err := tenantID(item.Request.ID)
	if err != nil {
		return api.Tenant{}, err
	}
	cell, err := d.chosen(ctx, home.server, item.Request.Value.Cell)
	if err != nil {
		return api.Tenant{}, err
	}
	name := ""
	if cell != 0 {
		name = d.Cells[cell].Name
	}
	made, err := home.server.shown(home.server.Store.Tenants.CreateIn(ctx, name, id, item.Request.Value))
	if err == nil {
		d.copyTenant(ctx, id)
	}
	return made, err
}

// errNoRoom: no cell that accepts new tenants answers.
var errNoRoom = errors.New("httpapi: no cell accepts new tenants")

// chosen gives the cell that a request names, whether it accepts new tenants by itself or not, or the
// roomiest.
func (d *Divider) chosen(ctx context.Context, home *Server, named *string) (int, error) {
	if named == nil {
		return d.roomiest(ctx, home)
	}
	for i, one := range d.Cells {
		if one.Name == *named {
			_, err := one.answering()
			return i, err
		}
	}
	return 0, problem.Invalid(problem.FieldError{Field: "cell", Message: "must be the name of a cell in FORGEQUEUE_CELLS"})
}

// roomiest chooses a new tenant's cell, among those that answer.
func (d *Divider) roomiest(ctx context.Context, home *Server) (int, error) {
	counts, err := home.Store.Processes.TenantsByCell(ctx)
	if err != nil {
		return 0, err
	}
	var candidates []cells.Candidate
	for i, one := range d.Cells {
		if _, err := one.answering(); err != nil || !one.Accepts {
			continue
		}
		tenants := counts[one.Name]
		if i == 0 {
			tenants = counts[""]
		}
		candidates = append(candidates, cells.Candidate{Cell: i, Weight: one.Weight, Tenants: tenants})
	}
	cell, found := cells.Roomiest(candidates)
	if !found {
		return 0, errors.Join(errNoRoom, store.ErrUnavailable)
	}
	return cell, nil
}

// copyTenant copies a tenant to its cell. If it cannot, the duty does it later, and until then the
// cell has the tenant as it was.
func (d *Divider) copyTenant(ctx context.Context, id tenant.ID) {
	cell, err := d.Places.Find(ctx, id)
	if err != nil || cell == 0 {
		return
	}
	routes, err := d.Cells[cell].answering()
	if err == nil {
		err = d.Copier.Tenant(ctx, id, routes.target)
	}
	if err != nil {
		d.home().Logger.WarnContext(ctx, "a tenant is not copied to its cell yet", "cell", d.Cells[cell].Name, "error", err)
		d.Copier.Kick()
	}
}

func (d *Divider) patchTenant(ctx context.Context, item hop.Item[hop.WithID[api.TenantPatch]]) (api.Tenant, error) {
	patched, err := byHome(ctx, d, hop.PatchTenant, item)
	if err == nil {
		d.copyNamed(ctx, patched.ID)
	}
	return patched, err
}

func (d *Divider) copyNamed(ctx context.Context, id string) {
	if parsed, err := uuid.Parse(id); err == nil {
		d.copyTenant(ctx, parsed)
	}
}

func (d *Divider) deleteTenant(ctx context.Context, item hop.Item[hop.ID]) (api.Tenant, error) {
	deleted, err := byHome(ctx, d, hop.DeleteTenant, item)
	if err == nil {
		d.copyNamed(ctx, deleted.ID)
		d.Copier.Kick() // its keys
	}
	return deleted, err
}

// getTenant reads a tenant. A deletion has ended when it has in the home cell and in the tenant's.
func (d *Divider) getTenant(ctx context.Context, item hop.Item[hop.ID]) (api.Tenant, error) {
	found, err := byHome(ctx, d, hop.GetTenant, item)
	if err != nil || found.Deletion == nil {
		return found, err
	}
	id, err := uuid.Parse(found.ID)
	if err != nil {
		return found, err
	}
	cell, err := d.cellOfTenant(ctx, id)
	if err != nil || cell == 0 {
		return found, err
	}
	there, _ := single(ctx, d, cell, hop.GetTenant, item)
	switch {
	case there.Problem != nil && there.Problem.Status >= 500:
		return api.Tenant{}, there.Problem
	case there.Problem != nil || there.Value.Deletion == nil:
		found.Deletion.State, found.Deletion.EndedAt = api.DeletionRunning, nil
	default:
		found.Deletion.Removed += there.Value.Deletion.Removed
		if there.Value.Deletion.State != api.DeletionDone {
			found.Deletion.State, found.Deletion.EndedAt = api.DeletionRunning, nil
		}
	}
	return found, nil
}

func (d *Divider) putPlan(ctx context.Context, item hop.Item[hop.Put[api.PlanRequest]]) (api.Plan, error) {
	plan, err := byHome(ctx, d, hop.PutPlan, item)
	if err != nil {
		return plan, err
	}
	eachCell(d, func(cell int) {
		if cell == 0 {
			return
		}
		routes, err := d.Cells[cell].answering()
		if err == nil {
			err = d.Copier.Plans(ctx, routes.target)
		}
		if err != nil {
			d.home().Logger.WarnContext(ctx, "a plan is not copied to a cell yet", "cell", d.Cells[cell].Name, "error", err)
			d.Copier.Kick()
		}
	})
	return plan, nil
}

// lookUpKey asks the home cell. While that does not answer, a key is looked up in the copies: keys do
// not change meanwhile, because only the home cell changes them.
func (d *Divider) lookUpKey(ctx context.Context, item hop.Item[hop.ID]) (hop.KeyRecord, error) {
	found, _ := single(ctx, d, 0, hop.LookUpKey, item)
	if found.Problem == nil {
		err := d.cellAndTypesOf(ctx, found.Value)
		return *found.Value, err
	}
	if d.Cells[0].Gate.Open() {
		return hop.KeyRecord{}, found.Problem
	}
	for cell := 1; cell < len(d.Cells); cell++ {
		if there, _ := single(ctx, d, cell, hop.LookUpKey, item); there.Problem == nil {
			if there.Value.Tenant != "" {
				there.Value.Cell = d.Cells[cell].Name
			}
			return *there.Value, nil
		}
	}
	return hop.KeyRecord{}, found.Problem // it may be a key of the home's tenants
}

// cellAndTypesOf gives a key its tenant's cell, and the version of its types where those lie in another cell than the key. A cell that was
// never reached refuses its tenants: a gateway must not take types that it cannot see for none.
func (d *Divider) cellAndTypesOf(ctx context.Context, key *hop.KeyRecord) error {
	owner, err := uuid.Parse(key.Tenant)
	if err != nil {
		return nil // a key of no tenant
	}
	cell, known, sure := d.Places.Known(owner)
	if !sure {
		found, err := d.Places.Find(ctx, owner)
		if err != nil {
			return err
		}
		if known && found != cell { // its version must not seem to fall
			if _, err := d.cellOfTenant(ctx, owner); err != nil {
				return err
			}
		}
		cell = found
	}
	if cell == 0 {
		return nil
	}
	key.Cell = d.Cells[cell].Name
	routes := d.Cells[cell].routes.Load()
	if routes == nil {
		return fmt.Errorf("httpapi: the cell %s: %w", d.Cells[cell].Name, store.ErrUnavailable)
	}
	through, leave := d.Cells[cell].Gate.Through(ctx)
	defer leave()
	key.TypesVersion, err = routes.server.Engine.Cached.TypesVersionOf(through, owner)
	return err
}
