package cellclient

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

// LookUpKey reads one API key; found is false for one that is unknown, revoked or
// expired.
func (c *Cell) LookUpKey(ctx context.Context, keyID string) (key hop.KeyRecord, found bool, err error) {
	return c.lookUp(ctx, hop.LookUpKey, keyID)
}

// LookUpTenant reads what a key has of its tenant; found is false for a tenant that does not exist or is being deleted.
func (c *Cell) LookUpTenant(ctx context.Context, tenant string) (key hop.KeyRecord, found bool, err error) {
	return c.lookUp(ctx, hop.LookUpTenant, tenant)
}

func (c *Cell) lookUp(ctx context.Context, of hop.Op[hop.ID, hop.KeyRecord], id string) (key hop.KeyRecord, found bool, err error) {
	item := hop.Item[hop.ID]{Principal: own(), Request: hop.ID{ID: id}}
	result, err := Call(ctx, c, of, How{}, item)
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

// Ready reads the readiness of core: ok, degraded or draining. It bypasses the limits
// and the breaker, so that it reports core's state and not the gateway's.
func (c *Cell) Ready(ctx context.Context) (status string, err error) {
	item := hop.Item[struct{}]{Principal: own()}
	result, err := Call(ctx, c, hop.GetReadiness, How{}, item)
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
