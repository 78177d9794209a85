package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// CreateOwnKey creates a key of your tenant.
//
//	@Description `key` is shown only in this answer: store it. With `user`, the key acts only for that user and sees only that user's jobs.
//	@Description
//	@Description The scope `admin` is the tenant's owner: it gives any scopes, also those that the calling key lacks, and `admin` itself. A key that is bound to a user cannot have it. A tenant may have 10,000 valid keys.
//	@Param       key body api.KeyRequest true "What the key may do."
//	@Success     201 {object} api.NewKey "The key."
//	@x-example-producer {"scopes": ["submit", "read"]}
//	@x-example-user     {"scopes": ["submit", "read"], "user": "ada", "expires_at": "2100-01-01T00:00:00Z"}
func (h *Handlers) CreateOwnKey(ctx context.Context, c *call.Call, r api.KeyRequest) (call.Response[api.NewKey], error) {
	if fields := r.Validate(h.core.Now()); len(fields) > 0 {
		return call.Response[api.NewKey]{}, problem.Invalid(fields...)
	}
	return h.mint(ctx, c, hop.CreateKeyRequest{Kind: hop.PrincipalTenant, User: r.User, Scopes: r.Scopes, ExpiresAt: r.ExpiresAt})
}

// ListOwnKeys lists the keys of your tenant.
//
//	@Description The keys that are not revoked, by `key_id`, without their secrets, which are not stored. An expired key is listed until it is revoked, or 1,000 others have ended after it.
//	@Success     200 {object} api.Page[api.Key] "A page of keys."
func (h *Handlers) ListOwnKeys(ctx context.Context, c *call.Call, _ call.None) (call.Passed, error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return call.Passed{}, err
	}
	return call.Pass(ctx, h.core, c, hop.ListKeys, hop.PageFor{PageRequest: page})
}

// RevokeOwnKey revokes a key of your tenant.
//
//	@Description This gateway refuses the key at once, other gateways within 30 s. A repeat is 204 again. A key cannot revoke itself: that is 403.
//	@Success     204 "The key is revoked."
func (h *Handlers) RevokeOwnKey(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	return h.revoke(ctx, c)
}
