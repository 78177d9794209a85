package signon

import (
	"fmt"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/e2e/stack"
)

// Site is a cluster whose console has single sign-on at a Provider.
type Site struct {
	*stack.Cluster

	// Tenant is acme, which the group readers may read, and ops manage.
	Tenant   stack.Tenant
	Provider *Provider
	URL      string
}

// NewSite starts a Site; life and groups are the Provider's.
func NewSite(tb testing.TB, life time.Duration, groups ...string) *Site {
	tb.Helper()
	c := stack.NewCluster(tb, stack.ClusterOptions{})
	gateway := c.Gateways[0]
	s := &Site{Cluster: c, Tenant: c.NewTenant(tb, "acme"), Provider: New(tb, gateway.URL, life, groups...), URL: gateway.URL}
	gateway.Stop()
	for name, value := range map[string]string{
		"FORGEQUEUE_OIDC_ISSUER": s.Provider.Issuer, "FORGEQUEUE_OIDC_CLIENT_ID": ClientID, "FORGEQUEUE_OIDC_CLIENT_SECRET": ClientSecret,
		"FORGEQUEUE_PUBLIC_URL": s.URL, "FORGEQUEUE_OIDC_CHECK_EVERY": "1s", "FORGEQUEUE_OIDC_GROUPS": fmt.Sprintf(
			`[{"group": "readers", "tenant": %q, "scopes": ["read"]}, {"group": "ops", "tenant": %[1]q, "scopes": ["manage"]}]`, s.Tenant.ID),
	} {
		gateway.Set(name, value)
	}
	gateway.Start()
	gateway.AwaitReady()
	return s
}
