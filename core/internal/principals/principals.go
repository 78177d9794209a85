// Package principals says for whom an item of a call is served: what its principal may do, and for which tenant.
package principals

import (
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// errNoAccess is for an access that a handler's shape does not know: it admits nobody.
var errNoAccess = errors.New("principals: no handler of this shape knows the operation's access")

// OwnerOf gives the tenant that a principal acts for.
func OwnerOf(access hop.Access, p hop.Principal) (tenant.ID, error) {
	switch access {
	case hop.ForTenant:
		return OfTenant(p)
	case hop.ForManager:
		return ofManager(p)
	case hop.ForWorker:
		return OfWorker(p)
	case hop.ForManagerOrPlatform:
		return ofManagerOrPlatform(p)
	case hop.ForReaderOrWorker:
		return ofReaderOrWorker(p)
	default:
		return tenant.ID{}, errNoAccess
	}
}

// OverseenBy gives the tenant that a principal acts for, nil for the operator.
func OverseenBy(access hop.Access, p hop.Principal) (*tenant.ID, error) {
	switch access {
	case hop.ForManagerOrOperator:
		return ofManagerOrOperator(p)
	case hop.ForAdminOrOperator:
		return ofAdminOrOperator(p)
	default:
		return nil, errNoAccess
	}
}

// ServesAll admits principals to what belongs to no tenant.
func ServesAll(access hop.Access, p hop.Principal) (struct{}, error) {
	switch {
	case access == hop.ForAnybody, access == hop.ForOperator && p.Kind == hop.PrincipalOperator:
		return struct{}{}, nil
	case access == hop.ForOperator:
		return struct{}{}, problem.New(problem.Forbidden, "This needs the operator key.")
	}
	return struct{}{}, errNoAccess
}

// OfTenant gives the tenant that a principal acts for.
func OfTenant(p hop.Principal) (tenant.ID, error) {
	id, err := uuid.Parse(p.Tenant)
	if p.Kind != hop.PrincipalTenant || err != nil || id == tenant.Platform {
		return tenant.ID{}, problem.New(problem.Forbidden, "This needs a tenant's key.")
	}
	return id, nil
}

// ofManager gives the tenant whose queues, workers and audit log a principal may see and
// change: they are the tenant's, and a key that is bound to a user sees that user only.
func ofManager(p hop.Principal) (tenant.ID, error) {
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user has access to that user's jobs only; queues, workers and the audit log belong to the tenant.")
	}
	return OfTenant(p)
}

// ofManagerOrPlatform gives the owner of the workers that a principal may see.
func ofManagerOrPlatform(p hop.Principal) (tenant.ID, error) {
	if p.Kind == hop.PrincipalPlatform {
		return tenant.Platform, nil
	}
	return ofManager(p)
}

// ofManagerOrOperator gives nil for the operator.
func ofManagerOrOperator(p hop.Principal) (*tenant.ID, error) {
	if p.Kind == hop.PrincipalOperator {
		return nil, nil //nolint:nilnil // the operator has no tenant
	}
	owner, err := ofManager(p)
	return &owner, err
}

// ofAdminOrOperator gives nil for the operator, and the tenant of a key with the scope admin.
func ofAdminOrOperator(p hop.Principal) (*tenant.ID, error) {
	owner, err := ofManagerOrOperator(p)
	if err == nil && owner != nil && !slices.Contains(p.Scopes, api.ScopeAdmin) {
		err = problem.New(problem.Forbidden, "The key lacks the scope admin.")
	}
	return owner, err
}

// IsReader says that a principal may read the jobs of its tenant.
func IsReader(p hop.Principal) bool {
	return p.Kind == hop.PrincipalTenant && slices.Contains(p.Scopes, api.ScopeRead)
}

func ofReaderOrWorker(p hop.Principal) (tenant.ID, error) {
	if IsReader(p) {
		return OfTenant(p)
	}
	return OfWorker(p)
}

// OfWorker gives the owner of a worker: a tenant, or the platform. A key that is bound to
// a user cannot claim: a claim takes the next job in line, of any user.
func OfWorker(p hop.Principal) (tenant.ID, error) {
	if p.Kind == hop.PrincipalPlatform {
		return tenant.Platform, nil
	}
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user cannot claim. Use one without a user.")
	}
	return OfTenant(p)
}

// Actor is a principal as the audit log names it.
func Actor(p hop.Principal) audit.Actor {
	return audit.Actor{Kind: p.Kind, KeyID: p.KeyID, User: p.User}
}

// Payer is whose share of this core an item uses: the tenant, or a key without one.
func Payer(p hop.Principal) string {
	if p.Tenant != "" {
		return p.Tenant
	}
	return p.Kind + " " + p.KeyID
}
