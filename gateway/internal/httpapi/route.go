package httpapi

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// route is what the door must know of a resource before its handler runs.
type route struct {
	method string
	// path is as in the contract: /v1/jobs/{id}.
	path   string
	access access
	// query names the parameters that may be given, each once; a name that ends in
	// a dot stands for all that begin with it.
	query []string
	body  request.Accept
	// operation names the request to idempotency; empty where an Idempotency-Key
	// is not taken.
	operation string
	cost      cost
	// busy, where set, refuses before the body is read what would be refused
	// afterwards. Who has an Idempotency-Key is not asked about: his line is another.
	busy func(*call) error
}

// endpoint is a route with its handler behind the adapter.
type endpoint struct {
	route
	serve gin.HandlerFunc
}

// pattern is the route's path as gin writes it: /v1/jobs/:id.
func (r route) pattern() string {
	return strings.NewReplacer("{", ":", "}", "").Replace(r.path)
}

// access says who may call. The zero value admits nobody, so that a route
// without a rule is closed.
type access struct {
	// public needs no credential.
	public bool
	// operator admits the operator key, and nothing else does.
	operator bool
	// anyKey admits every tenant and platform key, whatever its scopes.
	anyKey bool
	// anyTenantKey admits every tenant key, whatever its scopes.
	anyTenantKey bool
	// scope is what a key must have.
	scope string
	// platform admits platform keys too, which work; without it only tenant keys.
	platform bool
	// unbound keeps user-bound keys out: what the route changes is the tenant's.
	unbound bool
}

func public() access             { return access{public: true} }
func operatorOnly() access       { return access{operator: true} }
func anyKey() access             { return access{anyKey: true} }
func anyTenantKey() access       { return access{anyTenantKey: true} }
func scoped(scope string) access { return access{scope: scope} }
func forWorkers() access         { return access{scope: api.ScopeWork, platform: true} }

// aboutWorkers is for what tenants read of their workers and the platform of its own.
func aboutWorkers() access { return access{scope: api.ScopeRead, platform: true, unbound: true} }

// forTenant is for what belongs to no user, but to the tenant as a whole.
func forTenant(scope string) access { return access{scope: scope, unbound: true} }

// admit judges a caller; the problem says what is missing.
func (a access) admit(who api.Principal) error {
	switch {
	case a.operator && who.Kind == api.PrincipalOperator:
		return nil
	case a.operator:
		return problem.New(problem.Forbidden, "Only the operator key opens /v1/admin.")
	case who.Kind == api.PrincipalOperator:
		return problem.New(problem.Forbidden, "The operator key opens /v1/admin and nothing else; use an API key here.")
	case a.anyKey:
		return nil
	case who.Kind == api.PrincipalPlatform && !a.platform:
		return problem.New(problem.Forbidden, "A platform key only works: it claims, registers workers, keeps leases and reports outcomes.")
	case a.anyTenantKey:
		return nil
	case a.unbound && who.User != "":
		return problem.New(problem.Forbidden, "The key acts for one user, and this belongs to the whole tenant; use a key without a user.")
	}
	needed := a.scope
	if who.Kind == api.PrincipalPlatform {
		needed = api.ScopeWork // a platform key has no other
	}
	if needed != "" && slices.Contains(who.Scopes, needed) {
		return nil
	}
	return problem.New(problem.Forbidden, "The key lacks the scope "+needed+".")
}

func body(limit int64) request.Accept         { return request.Accept{Max: limit} }
func optionalBody(limit int64) request.Accept { return request.Accept{Max: limit, Optional: true} }
