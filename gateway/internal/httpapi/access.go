package httpapi

import (
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// access is the callers that a route admits. The zero value admits none, so that a
// route without a rule is closed.
type access struct {
	// public needs no credential.
	public bool
	// operator admits the operator key; nothing else does.
	operator bool
	// anyKey admits every tenant and platform key, whatever its scopes.
	anyKey bool
	// anyTenantKey admits every tenant key, whatever its scopes.
	anyTenantKey bool
	// scope is what a key must have.
	scope string
	// or is a scope that does as well; empty for none.
	or string
	// eventsToken admits a token for the job's events instead of a key: it was made with a key that has the scope.
	eventsToken bool
	// signalLink takes the token in the path instead of a key: it was made with a key that has the scope.
	signalLink bool
	// platform admits platform keys too, which work; without it only tenant keys.
	platform bool
	// unbound refuses user-bound keys: the route changes what belongs to the tenant.
	unbound bool
	// ofKey refuses people who signed in by single sign-on: what the route makes or ends is the key's.
	ofKey bool
}

var (
	public       = access{public: true}
	operatorOnly = access{operator: true}
	anyKey       = access{anyKey: true}
	anyTenantKey = access{anyTenantKey: true}
	signalLink   = access{signalLink: true, scope: api.ScopeSubmit}
)

func scoped(scope string) access { return access{scope: scope} }

// allowScope admits keys with another scope too.
func allowScope(a access, scope string) access {
	a.or = scope
	return a
}

// allowEventsToken admits the query's events token too.
func allowEventsToken(a access) access {
	a.eventsToken = true
	return a
}

// allowPlatform admits platform keys too.
func allowPlatform(a access) access {
	a.platform = true
	return a
}

// unbound is for what belongs to no user, but to the tenant as a whole.
func unbound(a access) access {
	a.unbound = true
	return a
}

// ofKey is for what is made with a key, and valid as long as the key is.
func ofKey(a access) access {
	a.ofKey = true
	return a
}

// admit checks a caller; the problem says what is missing.
func (a access) admit(who hop.Principal) error {
	switch {
	case a.operator && who.Kind == hop.PrincipalOperator:
		return nil
	case a.operator:
		return problem.New(problem.Forbidden, "/v1/admin needs the operator key.")
	case who.Kind == hop.PrincipalOperator:
		return problem.New(problem.Forbidden, "The operator key is valid for /v1/admin only; use an API key here.")
	case a.ofKey && who.IsPerson():
		return problem.New(problem.Forbidden, "This needs an API key, and you signed in by single sign-on.")
	case a.anyKey:
		return nil
	case who.Kind == hop.PrincipalPlatform && !a.platform:
		return problem.New(problem.Forbidden, "A platform key can only claim jobs, register workers, send heartbeats and report outcomes.")
	case a.anyTenantKey:
		return nil
	case a.unbound && who.User != "":
		return problem.New(problem.Forbidden, "The key is bound to a user, and this resource belongs to the whole tenant; use a key without a user.")
	}
	needed := a.scope
	if who.Kind == hop.PrincipalPlatform {
		needed = api.ScopeWork // a platform key has no other
	}
	if needed != "" && slices.Contains(who.Scopes, needed) || a.or != "" && slices.Contains(who.Scopes, a.or) {
		return nil
	}
	if a.or != "" {
		needed += " or " + a.or
	}
	return problem.New(problem.Forbidden, "The key lacks the scope "+needed+".")
}
