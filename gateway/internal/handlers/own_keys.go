package handlers

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// CreateOwnKey answers POST /v1/keys: 201 with a key of the caller's tenant, shown only here.
//
//	@Summary     Create a key of your tenant
//	@Description `key` is shown only in this answer: store it. With `user`, the key acts only for that user and sees only that user's jobs.
//	@Description
//	@Description The scope `admin` is the tenant's owner: it gives any scopes, also those that the calling key lacks, and `admin` itself. A key that is bound to a user cannot have it. A tenant may have 10,000 valid keys.
//	@ID          createOwnKey
//	@Tags        Keys
//	@Param       key body api.KeyRequest true "What the key may do."
//	@Success     201 {object} api.NewKey "The key."
//	@x-access    "admin unbound"
//	@x-example-producer {"scopes": ["submit", "read"]}
//	@x-example-user     {"scopes": ["submit", "read"], "user": "ada", "expires_at": "2100-01-01T00:00:00Z"}
//	@Router      /v1/keys [post]
func (h *Handlers) CreateOwnKey(ctx context.Context, c *Call, r api.KeyRequest) (Response[api.NewKey], error) {
	if fields := r.Validate(h.core.Now()); len(fields) > 0 {
		return Response[api.NewKey]{}, problem.Invalid(fields...)
	}
	return h.mint(ctx, c, hop.CreateKeyRequest{Kind: hop.PrincipalTenant, User: r.User, Scopes: r.Scopes, ExpiresAt: r.ExpiresAt})
}

// ListOwnKeys answers GET /v1/keys with a page of the keys of the caller's tenant, without their secrets.
//
//	@Summary     List the keys of your tenant
//	@Description The keys that are not revoked, by `key_id`, without their secrets, which are not stored. An expired key is listed until it is revoked, or 1,000 others have ended after it.
//	@ID          listOwnKeys
//	@Tags        Keys
//	@Param       page_size  query int    false "Maximum number of items."
//	@Param       page_token query string false "`next_page_token` of the previous page."
//	@Success     200 {object} api.Page[api.Key] "A page of keys."
//	@x-access    "admin unbound"
//	@Router      /v1/keys [get]
func (h *Handlers) ListOwnKeys(ctx context.Context, c *Call, _ None) (Response[api.Page[api.Key]], error) {
	page, err := request.ReadPage(c.Query)
	if err != nil {
		return Response[api.Page[api.Key]]{}, err
	}
	return send(ctx, h, c, hop.ListKeys, hop.PageFor{PageRequest: page})
}

// RevokeOwnKey answers DELETE /v1/keys/{key_id}: 204, and again 204 for a repeat. A key of another tenant
// is 404, as an unknown one; the key that calls is 403.
//
//	@Summary     Revoke a key of your tenant
//	@Description This gateway refuses the key at once, other gateways within 30 s. A repeat is 204 again. A key cannot revoke itself: that is 403.
//	@ID          revokeOwnKey
//	@Tags        Keys
//	@Param       key_id path string true "The key's id: its part between the second and the third underscore."
//	@Success     204 "The key is revoked."
//	@x-access    "admin unbound"
//	@Router      /v1/keys/{key_id} [delete]
func (h *Handlers) RevokeOwnKey(ctx context.Context, c *Call, _ None) (Response[None], error) {
	return h.revoke(ctx, c)
}
