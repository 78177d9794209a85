package handlers

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateKey creates an API key.
//
//	@Description `key` is shown only in this answer: store it. With `user`, the key acts only for that user and sees only that user's jobs. With the scope `admin`, it manages the keys of its tenant.
//	@Param       key body api.KeyRequest true "What the key may do."
//	@Success     201 {object} api.NewKey "The key."
//	@x-example-producer {"scopes": ["submit", "read"]}
//	@x-example-user     {"scopes": ["submit", "read"], "user": "ada", "expires_at": "2100-01-01T00:00:00Z"}
func (h *Handlers) CreateKey(ctx context.Context, c *call.Call, r api.KeyRequest) (call.Response[api.NewKey], error) {
	tenant, err := c.ID()
	if err != nil {
		return call.Response[api.NewKey]{}, err
	}
	if fields := r.Validate(h.core.Now()); len(fields) > 0 {
		return call.Response[api.NewKey]{}, problem.Invalid(fields...)
	}
	return h.mint(ctx, c, hop.CreateKeyRequest{
		Kind: hop.PrincipalTenant, Tenant: tenant, User: r.User, Scopes: r.Scopes, ExpiresAt: r.ExpiresAt,
	})
}

// CreatePlatformKey creates a platform key.
//
//	@Description For workers that serve all tenants: it claims from every tenant's queues with the given names, and each claimed job names its tenant. Its only scope is `work`. `key` is shown only in this answer.
//	@Param       key body api.PlatformKeyRequest false "When the key expires; null for never."
//	@Success     201 {object} api.NewKey "The key."
//	@x-example-lasting  {}
//	@x-example-expiring {"expires_at": "2100-01-01T00:00:00Z"}
func (h *Handlers) CreatePlatformKey(ctx context.Context, c *call.Call, r api.PlatformKeyRequest) (call.Response[api.NewKey], error) {
	if fields := r.Validate(h.core.Now()); len(fields) > 0 {
		return call.Response[api.NewKey]{}, problem.Invalid(fields...)
	}
	return h.mint(ctx, c, hop.CreateKeyRequest{
		Kind: hop.PrincipalPlatform, Scopes: []string{api.ScopeWork}, ExpiresAt: r.ExpiresAt,
	})
}

// mint draws a key, has core store all but its secret, and returns it once.
func (h *Handlers) mint(ctx context.Context, c *call.Call, request hop.CreateKeyRequest) (call.Response[api.NewKey], error) {
	key := auth.Mint(h.keyEnv, h.keySecret)
	request.KeyID, request.SecretHMAC = key.ID, key.HMAC(h.keySecret)
	stored, err := call.Send(ctx, h.core, c, hop.CreateKey, request)
	if err != nil {
		return call.Response[api.NewKey]{}, err
	}
	return call.Response[api.NewKey]{Status: http.StatusCreated, Value: api.NewKey{Key: stored.Value, Secret: key.Text()}}, nil
}

// ListKeys lists a tenant's keys.
//
//	@Description Keys without their secrets, which are not stored.
//	@Success     200 {object} api.Page[api.Key] "A page of keys."
func (h *Handlers) ListKeys(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	return call.PageFor(ctx, h.core, c, hop.ListKeys, c.ID)
}

// RevokeKey revokes a key.
//
//	@Description This gateway refuses the key at once, other gateways within 30 s. A repeat is 204 again.
//	@Success     204 "The key is revoked."
func (h *Handlers) RevokeKey(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return h.revoke(ctx, c)
}

// revoke revokes the path's key.
func (h *Handlers) revoke(ctx context.Context, c *call.Call) (call.Response[call.None], error) {
	id := c.Params["key_id"]
	if !auth.ValidKeyID(id) {
		return call.Response[call.None]{}, call.ErrNoSuchID
	}
	// Before as well as after: if the answer is lost, the revocation may still hold.
	h.auth.Forget(id)
	_, err := call.Send(ctx, h.core, c, hop.RevokeKey, hop.ID{ID: id})
	h.auth.Forget(id)
	return call.Response[call.None]{Status: http.StatusNoContent}, err
}
