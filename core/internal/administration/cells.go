package administration

import (
	"context"
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// seenWithin: a cell whose cores have asked for the directory within this time can take new tenants.
const seenWithin = "1 minute"

// errNoRoom: no cell that accepts new tenants has running cores.
var errNoRoom = errors.New("administration: no cell that accepts new tenants has running cores")

// placeTenant gives the cell of a new tenant, "" for the home cell: the one that the request names, whether it accepts new tenants by itself
// or not, or the one with the most room.
func (a *Administration) placeTenant(ctx context.Context, named *string) (string, error) {
	if len(a.Cells) == 0 {
		if named != nil {
			return "", problem.Invalid(problem.FieldError{Field: "cell", Message: "must be absent: the installation has one database"})
		}
		return "", nil
	}
	if named != nil {
		for _, one := range a.Cells {
			if one.Name == *named {
				return one.Key(), nil
			}
		}
		return "", problem.Invalid(problem.FieldError{Field: "cell", Message: "must be the name of a cell in FORGEQUEUE_CELLS"})
	}
	counts, err := a.Store.Processes.TenantsByCell(ctx)
	if err != nil {
		return "", err
	}
	seen, err := directory.Directory{Store: a.Store.Store}.SeenWithin(ctx, seenWithin)
	if err != nil {
		return "", err
	}
	var candidates []cells.Candidate
	for i, one := range a.Cells {
		if one.Accepts() && (one.Home() || seen[one.Name]) {
			candidates = append(candidates, cells.Candidate{Cell: i, Weight: one.Share(), Tenants: counts[one.Key()]})
		}
	}
	cell, found := cells.Roomiest(candidates)
	if !found {
		return "", errors.Join(errNoRoom, store.ErrUnavailable)
	}
	return a.Cells[cell].Key(), nil
}

// ReadDirectory reads what has changed in the directory for another cell, whose cores copy it. It waits up to `wait_ms`
// for a change. Plans, the cell's tenants, and the keys of these and of the platform, as they are now.
//
//	@x-example-all {"cell": "second", "installation": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0009", "since": 0}
func (a *Administration) ReadDirectory(ctx context.Context, item hop.Item[hop.DirectoryRequest]) (hop.DirectoryChanges, error) {
	changes, err := directory.Directory{Store: a.Store.Store, Draining: a.Draining}.Changes(ctx, item.Request)
	if errors.Is(err, directory.ErrOtherInstallation) {
		return changes, problem.New(problem.InvalidRequest, fmt.Sprintf(
			"The cell %q is of another installation. Correct its connection string, or the URL of its home.", item.Request.Cell))
	}
	return changes, err
}
