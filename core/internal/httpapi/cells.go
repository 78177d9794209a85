package httpapi

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// Cell is the cell that a server serves: the zero value where the installation has one database.
type Cell struct {
	// Name is the cell's name where the installation has several, Prefix what the paths of its routes begin with.
	Name, Prefix string
	// Copies says that the cell has a copy of the home cell's directory: it is not the home cell.
	Copies bool
}

// ofCell is a route in a cell: one that is not the home cell has no directory, and each refuses tenants of the others.
func (s *Server) ofCell(r route) handler {
	switch {
	case s.Cell.Name == "" || r.op.Directory && !s.Cell.Copies:
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
	return response{}, problem.New(problem.CoreUnavailable, "The cell "+s.Cell.Name+" is not the home cell, which alone has tenants, plans and keys. Correct FORGEQUEUE_CORE_URL of the gateway.")
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
	return s.Operations.Engine.Cached.Limits.Present(ctx, owner)
}
