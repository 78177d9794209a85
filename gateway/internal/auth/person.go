package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ErrNoTenant means that the tenant of a person does not exist, or is being deleted.
var ErrNoTenant = errors.New("auth: the tenant does not exist")

// tenantPrefix begins the ids by which tenants are cached among the keys: no key's id has a space.
const tenantPrefix = "tenant "

// AuthenticatePerson lets a person act for a tenant, with the tenant's plan and overrides. That the person may, its caller
// has checked: no credential is verified here. It returns ErrNoTenant for a tenant that does not exist, ErrUnauthenticated
// for what is no person, and any other error if core gave no answer.
func (a *Authenticator) AuthenticatePerson(ctx context.Context, who hop.Principal) (Caller, error) {
	if !who.IsPerson() || a.tenant == nil {
		return Caller{}, ErrUnauthenticated
	}
	known, err := a.key(ctx, tenantPrefix+who.Tenant)
	if err != nil {
		return Caller{}, fmt.Errorf("look up tenant %s: %w", who.Tenant, err)
	}
	if known == nil {
		return Caller{}, ErrNoTenant
	}
	own := *known
	own.KeyID, own.Scopes, own.SecretHMAC = who.KeyID, who.Scopes, nil
	return callerOf(&own), nil
}

// held is by what a caller that waits is watched: the key, and of a person the tenant.
func (c Caller) held() string {
	if c.Principal.IsPerson() {
		return tenantPrefix + c.Principal.Tenant
	}
	return c.Key.KeyID
}
