package httpapi

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// createKey answers POST /v1/admin/tenants/{id}/keys: 201 with the key, which is
// shown only here.
//
//	@Summary     Make an API key
//	@Description `key` is shown in this answer only: keep it. With `user` the key acts for, and sees, that user alone.
//	@ID          createKey
//	@Tags        Admin
//	@Param       id  path string         true "The tenant's id." Format(uuid)
//	@Param       key body api.KeyRequest true "What the key may do."
//	@Success     201 {object} api.NewKey "The key."
//	@x-access    "operator"
//	@x-example-producer {"scopes": ["submit", "read"]}
//	@x-example-user     {"scopes": ["submit", "read"], "user": "ada", "expires_at": "2100-01-01T00:00:00Z"}
//	@Router      /v1/admin/tenants/{id}/keys [post]
func (s *Server) createKey(ctx context.Context, c *call, r api.KeyRequest) (reply[api.NewKey], error) {
	tenant, err := c.id()
	if err != nil {
		return reply[api.NewKey]{}, err
	}
	if fields := r.Validate(s.core.Now()); len(fields) > 0 {
		return reply[api.NewKey]{}, problem.Invalid(fields...)
	}
	return s.mint(ctx, c, api.HopKeyCreateRequest{
		Kind: api.PrincipalTenant, Tenant: tenant, User: r.User, Scopes: r.Scopes, ExpiresAt: r.ExpiresAt,
	})
}

// createPlatformKey answers POST /v1/admin/platform-keys: 201 with a key that
// works for all tenants, shown only here.
//
//	@Summary     Make a platform key
//	@Description For workers that serve all tenants: it claims from every tenant's queues of the names it asks for, and its claims say whose each job is. It has the scope `work` and no other. `key` is shown in this answer only.
//	@ID          createPlatformKey
//	@Tags        Admin
//	@Param       key body api.PlatformKeyRequest false "When it expires, if ever."
//	@Success     201 {object} api.NewKey "The key."
//	@x-access    "operator"
//	@x-example-lasting  {}
//	@x-example-expiring {"expires_at": "2100-01-01T00:00:00Z"}
//	@Router      /v1/admin/platform-keys [post]
func (s *Server) createPlatformKey(ctx context.Context, c *call, r api.PlatformKeyRequest) (reply[api.NewKey], error) {
	if fields := r.Validate(s.core.Now()); len(fields) > 0 {
		return reply[api.NewKey]{}, problem.Invalid(fields...)
	}
	return s.mint(ctx, c, api.HopKeyCreateRequest{
		Kind: api.PrincipalPlatform, Scopes: []string{api.ScopeWork}, ExpiresAt: r.ExpiresAt,
	})
}

// mint draws a key, stores what core may know of it, and shows the rest once.
func (s *Server) mint(ctx context.Context, c *call, request api.HopKeyCreateRequest) (reply[api.NewKey], error) {
	key := auth.Mint(s.keyEnv).Signed(s.keySecret)
	request.KeyID, request.SecretHMAC = key.ID, key.HMAC(s.keySecret)
	stored, err := send[api.HopKeyCreateRequest, api.Key](ctx, s, c, coreclient.Write(api.HopKeyCreate), request)
	if err != nil {
		return reply[api.NewKey]{}, err
	}
	return reply[api.NewKey]{status: http.StatusCreated, value: api.NewKey{Key: stored.value, Secret: key.Text()}}, nil
}

// listKeys answers GET /v1/admin/tenants/{id}/keys with a page of keys, without
// their secrets.
//
//	@Summary     List a tenant's keys
//	@Description Without their secrets, which nobody has any more.
//	@ID          listKeys
//	@Tags        Admin
//	@Param       id         path  string true  "The tenant's id." Format(uuid)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Key] "A page of keys."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants/{id}/keys [get]
func (s *Server) listKeys(ctx context.Context, c *call, _ none) (reply[api.Page[api.Key]], error) {
	tenant, err := c.id()
	if err != nil {
		return reply[api.Page[api.Key]]{}, err
	}
	page, err := request.ReadPage(c.query)
	if err != nil {
		return reply[api.Page[api.Key]]{}, err
	}
	page.Tenant = tenant
	return send[api.HopPageRequest, api.Page[api.Key]](ctx, s, c, coreclient.Read(api.HopKeyList), page)
}

// revokeKey answers DELETE /v1/admin/keys/{key_id}: 204, and again 204 for a
// repeat. This gateway stops taking the key at once, others when the hint
// reaches them, 30 s at the latest.
//
//	@Summary     Revoke a key
//	@Description This gateway stops taking it at once, others within 30 s. A repeat is 204 again.
//	@ID          revokeKey
//	@Tags        Admin
//	@Param       key_id path string true "The key's id: its part between the second and the third underscore."
//	@Success     204 "The key is good for nothing any more."
//	@x-access    "operator"
//	@Router      /v1/admin/keys/{key_id} [delete]
func (s *Server) revokeKey(ctx context.Context, c *call, _ none) (reply[none], error) {
	id := c.params["key_id"]
	if !auth.ValidKeyID(id) {
		return reply[none]{}, errNoSuchID
	}
	// Before as well as after: if the answer is lost, the revocation may still hold.
	s.auth.Forget(id)
	_, err := send[api.HopKeyLookupRequest, none](ctx, s, c, coreclient.Write(api.HopKeyRevoke), api.HopKeyLookupRequest{KeyID: id})
	s.auth.Forget(id)
	return reply[none]{status: http.StatusNoContent}, err
}
