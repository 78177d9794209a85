package coreclient

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// own is the principal of what the gateway asks for itself. Core knows three
// kinds, and the operator is the one that belongs to no tenant.
func own() api.Principal { return api.Principal{Kind: api.PrincipalOperator} }

// LookUpKey reads one API key; found is false for one that is unknown, revoked or
// expired.
func (c *Client) LookUpKey(ctx context.Context, keyID string) (key api.HopKey, found bool, err error) {
	item := api.Item[api.HopKeyLookupRequest]{Principal: own(), Request: api.HopKeyLookupRequest{KeyID: keyID}}
	result, err := Call[api.HopKeyLookupRequest, api.HopKey](ctx, c, Read(api.HopKeyLookup), item)
	switch {
	case err != nil:
		return api.HopKey{}, false, err
	case result.Problem != nil && result.Problem.Code == problem.NotFound:
		return api.HopKey{}, false, nil
	case result.Problem != nil:
		return api.HopKey{}, false, result.Problem
	case result.Value == nil:
		return api.HopKey{}, false, fmt.Errorf("%w: a key without a value", ErrContract)
	}
	return *result.Value, true, nil
}

// Ready reads core's readiness: ok, degraded or draining. It bypasses the limits
// and the breaker, so that it reports core's state and not the gateway's.
func (c *Client) Ready(ctx context.Context) (status string, err error) {
	item := api.Item[struct{}]{Principal: own()}
	result, err := Call[struct{}, api.Readiness](ctx, c, Read(api.HopReady), item)
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
