package client

import (
	"context"
	"net/http"

	"github.com/forgequeue/forgequeue/shared/api"
)

// These calls are about the keys of the caller's own tenant. They need a key with the scope admin, which gives any
// scopes to the keys that it makes, also those that it lacks itself.

// CreateOwnKey makes a key of the caller's tenant, or of one user of it. Its secret is in this answer and nowhere
// else. The call is not repeated once it may have been written.
func (c *Client) CreateOwnKey(ctx context.Context, key api.KeyRequest) (api.NewKey, error) {
	var answer api.NewKey
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"v1", "keys"}, body: key, answer: &answer})
	return answer, err
}

// OwnKeys gives one page of the keys of the caller's tenant that are not revoked, by id, without their secrets.
func (c *Client) OwnKeys(ctx context.Context, page PageRequest) (api.Page[api.Key], error) {
	return list[api.Key](ctx, c, page.query(), "keys")
}

// RevokeOwnKey ends a key of the caller's tenant; it is no error if it had ended before. The problem forbidden
// refuses the key that calls, and not_found one of another tenant.
func (c *Client) RevokeOwnKey(ctx context.Context, keyID string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"v1", "keys", keyID}, repeatable: true})
}
