package auth_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/gateway/internal/auth"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

const tenantOfPerson = "0190a000-0000-7000-8000-00000000000a"

// ann is a person.
func ann(scopes ...string) hop.Principal {
	return hop.Principal{Kind: hop.PrincipalTenant, Tenant: tenantOfPerson, Scopes: scopes, KeyID: "oidc:ann/abc"}
}

// persons is an authenticator that knows one tenant, and how often it was looked up.
func persons(c *core) *auth.Authenticator {
	c.set(func() {
		c.keys[tenantOfPerson] = hop.KeyRecord{Kind: hop.PrincipalTenant, Tenant: tenantOfPerson, Plan: &api.Plan{Name: "free"}, SecretHMAC: []byte("x")}
	})
	return auth.New(auth.Options{KeySecret: keySecret, Lookup: c.lookUp, LookupTenant: c.lookUp, Now: c.clock})
}

// A person has the scopes that were given, and plan and overrides of the tenant, which is looked up once for all.
func TestAPersonActsForATenant(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := persons(c)
	for _, scope := range []string{"read", "admin"} {
		caller, err := a.AuthenticatePerson(t.Context(), ann(scope))
		if err != nil {
			t.Fatal(err)
		}
		if who := caller.Principal; who.Tenant != tenantOfPerson || who.KeyID != "oidc:ann/abc" || who.User != "" || !slices.Equal(who.Scopes, []string{scope}) {
			t.Errorf("principal %+v", who)
		}
		if key := caller.Key; key.Plan.Name != "free" || key.KeyID != "oidc:ann/abc" || key.SecretHMAC != nil {
			t.Errorf("key %+v", key)
		}
	}
	if got := c.asked.Load(); got != 1 {
		t.Errorf("%d look-ups", got)
	}
	a.ForgetLimits(hop.LimitsChanged{Tenant: tenantOfPerson})
	if _, err := a.AuthenticatePerson(t.Context(), ann("read")); err != nil || c.asked.Load() != 2 {
		t.Errorf("after a change of limits: %v, %d look-ups", err, c.asked.Load())
	}
}

func TestAPersonIsRefused(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := persons(c)
	key, other, operator := ann("read"), ann("read"), ann("read")
	key.KeyID, other.Tenant, operator.Kind = "abcdefgh", "0190a000-0000-7000-8000-00000000000b", hop.PrincipalOperator
	for want, who := range map[error]hop.Principal{auth.ErrUnauthenticated: key, auth.ErrNoTenant: other} {
		if _, err := a.AuthenticatePerson(t.Context(), who); !errors.Is(err, want) {
			t.Errorf("%+v: %v", who, err)
		}
	}
	if _, err := a.AuthenticatePerson(t.Context(), operator); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("an operator: %v", err)
	}
	if _, err := c.authenticator().AuthenticatePerson(t.Context(), ann("read")); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("where there are no people: %v", err)
	}
	c.set(func() { c.keys[other.Tenant] = hop.KeyRecord{Tenant: tenantOfPerson} })
	c.pass(time.Minute)
	if _, err := a.AuthenticatePerson(t.Context(), other); err == nil || errors.Is(err, auth.ErrNoTenant) {
		t.Errorf("another tenant than was asked for: %v", err)
	}
	// What a person is known by opens nothing.
	for _, credential := range []string{"oidc:ann/abc", "tenant " + tenantOfPerson, tenantOfPerson} {
		if _, err := a.Authenticate(t.Context(), credential); !errors.Is(err, auth.ErrUnauthenticated) {
			t.Errorf("%q: %v", credential, err)
		}
	}
	token, _ := a.EventsToken("oidc:ann/abc", "j")
	if _, err := a.AuthenticateEvents(t.Context(), token, "j"); !errors.Is(err, auth.ErrUnauthenticated) {
		t.Errorf("an events token of a person: %v", err)
	}
}

// What a person waits for ends when the tenant is deleted.
func TestAPersonsRequestEndsWithTheTenant(t *testing.T) {
	t.Parallel()
	c := newCore()
	a := persons(c)
	caller, err := a.AuthenticatePerson(t.Context(), ann("read"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, release := a.WhileGood(t.Context(), caller)
	defer release()
	c.set(func() { delete(c.keys, tenantOfPerson) })
	a.ForgetLimits(hop.LimitsChanged{Tenant: tenantOfPerson})
	<-ctx.Done()
}
