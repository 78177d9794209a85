package httpapi

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/forgequeue/forgequeue/core/internal/stats"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/clock"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// listRoutes serve what is read in several cells and merged.
func (d *Divider) listRoutes() map[string]handler {
	return table(
		each(hop.ListAudit, overseen(d.listAudit)),
		each(hop.ListWorkers, owned(d.listWorkers)),
		each(hop.GetInstallation, plain(d.installation)),
		each(hop.GetTenantStats, plain(d.tenantStats)),
	)
}

// eachCell calls do for all cells side by side.
func eachCell(d *Divider, do func(cell int)) {
	var group sync.WaitGroup
	for cell := range d.Cells {
		group.Go(func() { do(cell) })
	}
	group.Wait()
}

// placesOf are where a merged list goes on: by the name of a cell a place in its list, null for the
// beginning. A cell that is not in it has ended.
type placesOf map[string]*string

// mergeList reads a page of a list whose rows lie in several cells. Each of them gives a page from its
// place on, and the first items of all of them are the page. compare is the list's order; of equal items,
// the first cell's is taken and the others are left out. place gives an item's place in its cell's list.
//
// A page of a cell may end before its last row, where it has looked at many rows that do not match:
// then the merged page ends there too, because what follows may come before the others' rows.
func mergeList[T any](
	ctx context.Context, d *Divider, cells []int, size int, place string,
	read func(ctx context.Context, s *Server, place string) (api.Page[T], error), compare func(a, b T) int, placeOf func(T) string,
) (api.Page[T], error) {
	from, err := openPlaces(d, cells, place)
	if err != nil {
		return api.Page[T]{}, err
	}
	pages := make([]api.Page[T], len(d.Cells))
	failures := make([]error, len(d.Cells))
	eachCell(d, func(cell int) {
		defer func() { // a goroutine of its own, where the middleware does not recover
			if failure := recover(); failure != nil {
				failures[cell] = fmt.Errorf("httpapi: a list panicked: %v\n%s", failure, stack())
			}
		}()
		where, goesOn := from[d.Cells[cell].Name]
		if !goesOn {
			return
		}
		routes, err := d.Cells[cell].answering()
		if err != nil {
			failures[cell] = err
			return
		}
		text := ""
		if where != nil {
			text = *where
		}
		ctx, leave := d.Cells[cell].Gate.Through(ctx)
		defer leave()
		pages[cell], failures[cell] = read(ctx, routes.server, text)
	})
	for _, err := range failures {
		if err != nil { // a list without a cell's rows would look complete
			return api.Page[T]{}, err
		}
	}
	made := api.Page[T]{Items: []T{}}
	next := from
	for {
		best := -1
		stuck := false
		for cell := range pages {
			if _, goesOn := next[d.Cells[cell].Name]; !goesOn {
				continue
			}
			if len(pages[cell].Items) == 0 {
				if pages[cell].NextPageToken == nil {
					delete(next, d.Cells[cell].Name)
					continue
				}
				next[d.Cells[cell].Name] = pages[cell].NextPageToken
				stuck = true
				continue
			}
			if best < 0 || compare(pages[cell].Items[0], pages[best].Items[0]) < 0 {
				best = cell
			}
		}
		if stuck || best < 0 || len(made.Items) == size {
			break
		}
		item := pages[best].Items[0]
		made.Items = append(made.Items, item)
		for cell := range pages {
			if len(pages[cell].Items) > 0 && compare(pages[cell].Items[0], item) == 0 {
				where := placeOf(pages[cell].Items[0])
				next[d.Cells[cell].Name] = &where
				pages[cell].Items = pages[cell].Items[1:]
			}
		}
	}
	if len(next) > 0 {
		text, err := json.Marshal(next)
		if err != nil {
			return api.Page[T]{}, err
		}
		token := string(text)
		made.NextPageToken = &token
	}
	return made, nil
}

func openPlaces(d *Divider, cells []int, place string) (placesOf, error) {
	from := placesOf{}
	if place == "" {
		for _, cell := range cells {
			from[d.Cells[cell].Name] = nil
		}
		return from, nil
	}
	if err := json.Unmarshal([]byte(place), &from); err != nil {
		return nil, store.ErrPageToken
	}
	for name := range from {
		if !slices.ContainsFunc(d.Cells, func(one *CellDoor) bool { return one.Name == name }) {
			return nil, store.ErrPageToken
		}
	}
	return from, nil
}

// allCells are the indices of all cells.
func (d *Divider) allCells() []int {
	all := make([]int, len(d.Cells))
	for i := range all {
		all[i] = i
	}
	return all
}

// listAudit merges the audit log of the directory, which is in the home cell, and those of the cells:
// a tenant's actions on its jobs and queues are recorded where these are.
func (d *Divider) listAudit(ctx context.Context, owner *tenant.ID, item hop.Item[hop.Filtered[api.AuditFilter]]) (api.Page[api.AuditEntry], error) {
	filter, owner, err := auditOf(owner, item.Request.Filter)
	if err != nil {
		return api.Page[api.AuditEntry]{}, err
	}
	among := d.allCells()
	if owner != nil {
		cell, err := d.cellOfTenant(ctx, *owner)
		if err != nil {
			return api.Page[api.AuditEntry]{}, err
		}
		if among = []int{0}; cell != 0 {
			among = append(among, cell)
		}
	}
	of := listingOf(hop.ListAudit.Path, item.Principal, filter, item.Request.PageSize, item.Request.PageToken)
	return paged(d.home(), of, func(place string, size int) (api.Page[api.AuditEntry], error) {
		return mergeList(ctx, d, among, size, place, func(ctx context.Context, s *Server, place string) (api.Page[api.AuditEntry], error) {
			return s.Store.Audit.Audit(ctx, owner, filter, size, place)
		}, func(a, b api.AuditEntry) int { return cmp.Compare(b.ID, a.ID) }, func(entry api.AuditEntry) string { return entry.ID })
	})
}

// listWorkers merges a platform's workers, each of which is in several cells.
func (d *Divider) listWorkers(ctx context.Context, owner tenant.ID, item hop.Item[hop.PageRequest]) (api.Page[api.Worker], error) {
	if owner != tenant.Platform {
		cell, err := d.cellOfTenant(ctx, owner)
		if err != nil {
			return api.Page[api.Worker]{}, err
		}
		answer, _ := single(ctx, d, cell, hop.ListWorkers, item)
		if answer.Problem != nil {
			return api.Page[api.Worker]{}, answer.Problem
		}
		return *answer.Value, nil
	}
	of := listingOf(hop.ListWorkers.Path, item.Principal, nil, item.Request.PageSize, item.Request.PageToken)
	return paged(d.home(), of, func(place string, size int) (api.Page[api.Worker], error) {
		return mergeList(ctx, d, d.allCells(), size, place, func(ctx context.Context, s *Server, place string) (api.Page[api.Worker], error) {
			workers, err := s.Store.Workers.List(ctx, tenant.Platform, place, size+1)
			return page(workers, size, workerID), err
		}, func(a, b api.Worker) int { return cmp.Compare(a.WorkerID, b.WorkerID) }, workerID)
	})
}

// installation is the home cell's, with the PostgreSQL, the statements and the redrives of all cells that answer. checks
// has the state of each cell.
func (d *Divider) installation(ctx context.Context, item hop.Item[struct{}]) (api.Installation, error) {
	answers := inAll(ctx, d, hop.GetInstallation, func(int) hop.Item[struct{}] { return item })
	if answers[0].Problem != nil {
		return api.Installation{}, answers[0].Problem
	}
	made := *answers[0].Value
	for i, answer := range answers[1:] {
		if answer.Status != http.StatusOK {
			continue
		}
		made.Cells = append(made.Cells, api.CellState{Name: d.Cells[i+1].Name, Postgres: answer.Value.Postgres})
		made.Statements = append(made.Statements, answer.Value.Statements...)
		made.Redrives = append(made.Redrives, answer.Value.Redrives...)
	}
	made.Checks = d.checks()
	return made, nil
}

// tenantStats merges what the cells that answer have counted.
func (d *Divider) tenantStats(ctx context.Context, item hop.Item[hop.StatsRequest]) (api.TenantStats, error) {
	if item.Request.To == nil { // the same steps in all cells
		item.Request.To = new(api.At(clock.Now()))
	}
	answers := inAll(ctx, d, hop.GetTenantStats, func(int) hop.Item[hop.StatsRequest] { return item })
	var found []api.TenantStats
	for _, answer := range answers {
		if answer.Status == http.StatusOK {
			found = append(found, *answer.Value)
		}
	}
	if len(found) == 0 {
		return api.TenantStats{}, answers[0].Problem
	}
	return stats.MergedTenants(found...), nil
}

// checks says of each cell whether it answers.
func (d *Divider) checks() map[string]string {
	checks := map[string]string{}
	for _, one := range d.Cells {
		state := "ok"
		if _, err := one.answering(); err != nil {
			state = "down"
		}
		checks["cell "+one.Name] = state
	}
	return checks
}

func (d *Divider) readiness(context.Context, hop.Item[struct{}]) (api.Readiness, error) {
	return d.checkReadiness(), nil
}

// readyz is Server.readyz for several cells.
func (d *Divider) readyz(context.Context, []byte) (response, error) {
	found := d.checkReadiness()
	if found.Status == statusDraining {
		return response{status: http.StatusServiceUnavailable, value: found}, nil
	}
	return response{status: http.StatusOK, value: found}, nil
}

// checkReadiness: a core without a cell is degraded, and still takes calls.
func (d *Divider) checkReadiness() api.Readiness {
	if d.home().Draining() {
		return api.Readiness{Status: statusDraining, Checks: map[string]string{}}
	}
	found := api.Readiness{Status: "ok", Checks: d.checks()}
	for _, state := range found.Checks {
		if state != "ok" {
			found.Status = "degraded"
		}
	}
	found.Checks["database"] = found.Checks["cell "+d.Cells[0].Name]
	return found
}
