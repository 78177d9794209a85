package httpapi

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/cells"
	"github.com/forgequeue/forgequeue/core/internal/directory"
	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ofCell is a route in a cell: one that is not the home cell has no directory, and each refuses tenants of the others.
func (s *Server) ofCell(r route) handler {
	switch {
	case s.Cell == "" || r.op.Directory && s.Feed == nil:
		return r.serve
	case r.op.Directory:
		return s.notHome
	}
	return func(ctx context.Context, body []byte) (response, error) {
		if err := s.present(ctx, body); err != nil {
			return response{}, err
		}
		return r.serve(ctx, body)
	}
}

func (s *Server) notHome(context.Context, []byte) (response, error) {
	return response{}, problem.New(problem.CoreUnavailable, "The cell "+s.Cell+" is not the home cell, which alone has tenants, plans and keys. Correct FORGEQUEUE_CORE_URL of the gateway.")
}

// present refuses a call for a tenant that another cell has: its gateway has not heard yet that the tenant was moved. A call
// with items of several tenants is a submit, which looks for itself (cache.Limits.Load).
func (s *Server) present(ctx context.Context, body []byte) error {
	var call struct {
		Items []struct {
			Principal struct {
				Tenant string `json:"tenant"`
			} `json:"principal"`
		} `json:"items"`
	}
	if err := json.Unmarshal(body, &call, jsontext.AllowDuplicateNames(true)); err != nil || len(call.Items) == 0 {
		return nil //nolint:nilerr // the handler says what is wrong
	}
	first := call.Items[0].Principal.Tenant
	for i := range call.Items {
		if call.Items[i].Principal.Tenant != first {
			return nil
		}
	}
	owner, err := uuid.Parse(first)
	if err != nil {
		return nil //nolint:nilerr // not a tenant's
	}
	return s.Engine.Cached.Limits.Present(ctx, owner)
}

// seenWithin: a cell whose cores have asked for the directory within this time can take new tenants.
const seenWithin = "1 minute"

// errNoRoom: no cell that accepts new tenants has running cores.
var errNoRoom = errors.New("httpapi: no cell that accepts new tenants has running cores")

// placeTenant gives the cell of a new tenant, "" for the home cell: the one that the request names, whether it accepts new tenants by itself
// or not, or the one with the most room.
func (s *Server) placeTenant(ctx context.Context, named *string) (string, error) {
	if len(s.Cells) == 0 {
		if named != nil {
			return "", problem.Invalid(problem.FieldError{Field: "cell", Message: "must be absent: the installation has one database"})
		}
		return "", nil
	}
	if named != nil {
		for _, one := range s.Cells {
			if one.Name == *named {
				return one.Key(), nil
			}
		}
		return "", problem.Invalid(problem.FieldError{Field: "cell", Message: "must be the name of a cell in FORGEQUEUE_CELLS"})
	}
	counts, err := s.Store.Processes.TenantsByCell(ctx)
	if err != nil {
		return "", err
	}
	seen, err := directory.Directory{Store: s.Store.Store}.SeenWithin(ctx, seenWithin)
	if err != nil {
		return "", err
	}
	var candidates []cells.Candidate
	for i, one := range s.Cells {
		if one.Accepts() && (one.Home() || seen[one.Name]) {
			candidates = append(candidates, cells.Candidate{Cell: i, Weight: one.Share(), Tenants: counts[one.Key()]})
		}
	}
	cell, found := cells.Roomiest(candidates)
	if !found {
		return "", errors.Join(errNoRoom, store.ErrUnavailable)
	}
	return s.Cells[cell].Key(), nil
}

// readDirectory reads what has changed in the directory for another cell, whose cores copy it. It waits up to `wait_ms`
// for a change. Plans, the cell's tenants, and the keys of these and of the platform, as they are now.
//
//	@x-example-all {"cell": "second", "installation": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0009", "since": 0}
func (s *Server) readDirectory(ctx context.Context, item hop.Item[hop.DirectoryRequest]) (hop.DirectoryChanges, error) {
	changes, err := directory.Directory{Store: s.Store.Store, Draining: s.Draining}.Changes(ctx, item.Request)
	if errors.Is(err, directory.ErrOtherInstallation) {
		return changes, problem.New(problem.InvalidRequest, fmt.Sprintf(
			"The cell %q is of another installation. Correct its connection string, or the URL of its home.", item.Request.Cell))
	}
	return changes, err
}
