package httpapi

import (
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// route is what the door must know of a resource before its handler runs.
type route struct {
	method string
	// path is as in the contract: /v1/jobs/{id}.
	path   string
	access access
	// query names the parameters that may be given, each once.
	query []string
	body  bodyRule
	// operation names the request to idempotency; empty where an Idempotency-Key
	// is not taken.
	operation string
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
	// scope is what a key must have.
	scope string
	// platform admits platform keys with the scope; without it only tenant keys.
	platform bool
}

func public() access             { return access{public: true} }
func operatorOnly() access       { return access{operator: true} }
func anyKey() access             { return access{anyKey: true} }
func scoped(scope string) access { return access{scope: scope} }
func forWorkers() access         { return access{scope: api.ScopeWork, platform: true} }

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
	case a.scope != "" && slices.Contains(who.Scopes, a.scope):
		return nil
	}
	return problem.New(problem.Forbidden, "The key lacks the scope "+a.scope+".")
}

// bodyRule says what body a route takes; the zero value takes none.
type bodyRule struct {
	// max is in bytes.
	max int64
	// optional stands for {} where the body is empty.
	optional bool
}

func body(limit int64) bodyRule         { return bodyRule{max: limit} }
func optionalBody(limit int64) bodyRule { return bodyRule{max: limit, optional: true} }
