package coreclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/gateway/internal/cellclient"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// actsFor is the principal of what the gateway reads for a tenant, whoever calls.
func actsFor(tenant string) hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenant}
}

// ReadTypes reads the types of a tenant's jobs.
func (c *Client) ReadTypes(ctx context.Context, tenant string) (hop.TypeSet, error) {
	item := hop.Item[struct{}]{Principal: actsFor(tenant)}
	result, err := Call(ctx, c, hop.GetTypeSet, cellclient.How{}, item)
	switch {
	case err != nil:
		return hop.TypeSet{}, err
	case result.Problem != nil:
		return hop.TypeSet{}, result.Problem
	case result.Value == nil:
		return hop.TypeSet{}, fmt.Errorf("%w: types without a value", cellclient.ErrContract)
	}
	return *result.Value, nil
}

// ReadSchema reads a schema of a version of a type; found is false where that version is not kept.
func (c *Client) ReadSchema(ctx context.Context, tenant string, of hop.CheckedType, result bool) (schema json.RawMessage, found bool, err error) {
	item := hop.Item[hop.TypeVersionRequest]{Principal: actsFor(tenant), Request: hop.TypeVersionRequest{Name: of.Type, Version: of.Version}}
	got, err := Call(ctx, c, hop.GetType, cellclient.How{}, item)
	switch {
	case err != nil:
		return nil, false, err
	case got.Problem != nil && got.Problem.Code == problem.NotFound:
		return nil, false, nil
	case got.Problem != nil:
		return nil, false, got.Problem
	case got.Value == nil:
		return nil, false, fmt.Errorf("%w: a type without a value", cellclient.ErrContract)
	case got.Value.Revision != of.Revision:
		return nil, false, nil
	case result:
		return got.Value.ResultSchema, true, nil
	}
	return got.Value.PayloadSchema, true, nil
}

// ReportUses tells core what was admitted and refused of a tenant's requests. It is never repeated: what is lost is
// missing in the limit stats, and nowhere else.
func (c *Client) ReportUses(ctx context.Context, tenant string, uses []hop.LimitUse) error {
	item := hop.Item[hop.LimitUsesRequest]{Principal: actsFor(tenant), Request: hop.LimitUsesRequest{Uses: uses}}
	result, err := Call(ctx, c, hop.RecordLimitUses, cellclient.How{Shared: true}, item)
	if err == nil && result.Problem != nil {
		err = result.Problem
	}
	return err
}

// ReportProcess tells core that this gateway runs, or that it stops. It is never repeated: the next report is soon enough.
func (c *Client) ReportProcess(ctx context.Context, report hop.ProcessReport) error {
	item := hop.Item[hop.ProcessReport]{Principal: hop.Principal{Kind: hop.PrincipalOperator}, Request: report}
	result, err := Call(ctx, c, hop.ReportProcess, cellclient.How{Shared: true}, item)
	if err == nil && result.Problem != nil {
		err = result.Problem
	}
	return err
}
