package coreclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// own is the principal of what the gateway asks for itself. Core knows three
// kinds, and the operator is the one that belongs to no tenant.
func own() hop.Principal { return hop.Principal{Kind: hop.PrincipalOperator} }

// lookUpKey reads one API key in a cell; found is false for one that is unknown, revoked or
// expired.
func (c *cores) lookUpKey(ctx context.Context, keyID string) (key hop.KeyRecord, found bool, err error) {
	item := hop.Item[hop.ID]{Principal: own(), Request: hop.ID{ID: keyID}}
	result, err := callIn(ctx, c, hop.LookUpKey, How{}, item)
	switch {
	case err != nil:
		return hop.KeyRecord{}, false, err
	case result.Problem != nil && result.Problem.Code == problem.NotFound:
		return hop.KeyRecord{}, false, nil
	case result.Problem != nil:
		return hop.KeyRecord{}, false, result.Problem
	case result.Value == nil:
		return hop.KeyRecord{}, false, fmt.Errorf("%w: a key without a value", ErrContract)
	}
	return *result.Value, true, nil
}

// actsFor is the principal of what the gateway reads for a tenant, whoever calls.
func actsFor(tenant string) hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenant}
}

// ReadTypes reads the types of a tenant's jobs.
func (c *Client) ReadTypes(ctx context.Context, tenant string) (hop.TypeSet, error) {
	item := hop.Item[struct{}]{Principal: actsFor(tenant)}
	result, err := Call(ctx, c, hop.GetTypeSet, How{}, item)
	switch {
	case err != nil:
		return hop.TypeSet{}, err
	case result.Problem != nil:
		return hop.TypeSet{}, result.Problem
	case result.Value == nil:
		return hop.TypeSet{}, fmt.Errorf("%w: types without a value", ErrContract)
	}
	return *result.Value, nil
}

// ReadSchema reads a schema of a version of a type; found is false where that version is not kept.
func (c *Client) ReadSchema(ctx context.Context, tenant string, of hop.CheckedType, result bool) (schema json.RawMessage, found bool, err error) {
	item := hop.Item[hop.TypeVersionRequest]{Principal: actsFor(tenant), Request: hop.TypeVersionRequest{Name: of.Type, Version: of.Version}}
	got, err := Call(ctx, c, hop.GetType, How{}, item)
	switch {
	case err != nil:
		return nil, false, err
	case got.Problem != nil && got.Problem.Code == problem.NotFound:
		return nil, false, nil
	case got.Problem != nil:
		return nil, false, got.Problem
	case got.Value == nil:
		return nil, false, fmt.Errorf("%w: a type without a value", ErrContract)
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
	result, err := Call(ctx, c, hop.RecordLimitUses, How{Shared: true}, item)
	if err == nil && result.Problem != nil {
		err = result.Problem
	}
	return err
}

// ReportProcess tells core that this gateway runs, or that it stops. It is never repeated: the next report is soon enough.
func (c *Client) ReportProcess(ctx context.Context, report hop.ProcessReport) error {
	item := hop.Item[hop.ProcessReport]{Principal: own(), Request: report}
	result, err := Call(ctx, c, hop.ReportProcess, How{Shared: true}, item)
	if err == nil && result.Problem != nil {
		err = result.Problem
	}
	return err
}

// ready reads the readiness of a cell's core: ok, degraded or draining. It bypasses the limits
// and the breaker, so that it reports core's state and not the gateway's.
func (c *cores) ready(ctx context.Context) (status string, err error) {
	item := hop.Item[struct{}]{Principal: own()}
	result, err := callIn(ctx, c, hop.GetReadiness, How{}, item)
	switch {
	case err != nil:
		return "", err
	case result.Problem != nil:
		return "", result.Problem
	case result.Value == nil || result.Value.Status == "":
		return "", fmt.Errorf("%w: a readiness without a status", ErrContract)
	}
	return result.Value.Status, nil
}

// refusedWith says whether core refused a call as a whole with this code.
func refusedWith(body []byte, code problem.Code) bool {
	var refusal problem.Problem
	return json.Unmarshal(body, &refusal) == nil && refusal.Code == code
}
