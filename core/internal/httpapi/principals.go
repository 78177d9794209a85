package httpapi

import (
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// admitted is a handler that serves the items whose principal an operation's access names, and refuses the others.
type admitted[Req, Resp any] func(hop.Access) itemHandler[Req, Resp]

// owned serves for the tenant that the principal acts for.
func owned[Req, Resp any](serve func(context.Context, tenant.ID, hop.Item[Req]) (Resp, error)) admitted[Req, Resp] {
	return admitting(ownerOf, serve)
}

// overseen serves for a tenant, or for the operator: then the tenant is nil.
func overseen[Req, Resp any](serve func(context.Context, *tenant.ID, hop.Item[Req]) (Resp, error)) admitted[Req, Resp] {
	return admitting(overseenBy, serve)
}

// plain serves what belongs to no tenant.
func plain[Req, Resp any](serve itemHandler[Req, Resp]) admitted[Req, Resp] {
	return admitting(servesAll, func(ctx context.Context, _ struct{}, item hop.Item[Req]) (Resp, error) { return serve(ctx, item) })
}

func admitting[Owner, Req, Resp any](
	ownerOf func(hop.Access, hop.Principal) (Owner, error), serve func(context.Context, Owner, hop.Item[Req]) (Resp, error),
) admitted[Req, Resp] {
	return func(access hop.Access) itemHandler[Req, Resp] {
		return func(ctx context.Context, item hop.Item[Req]) (Resp, error) {
			owner, err := ownerOf(access, item.Principal)
			if err != nil {
				var none Resp
				return none, err
			}
			return serve(ctx, owner, item)
		}
	}
}

// errNoAccess is for an access that a handler's shape does not know: it admits nobody.
var errNoAccess = errors.New("httpapi: no handler of this shape knows the operation's access")

// ownerOf gives the tenant that a principal acts for.
func ownerOf(access hop.Access, p hop.Principal) (tenant.ID, error) {
	switch access {
	case hop.ForTenant:
		return ofTenant(p)
	case hop.ForManager:
		return ofManager(p)
	case hop.ForWorker:
		return ofWorker(p)
	case hop.ForManagerOrPlatform:
		return ofManagerOrPlatform(p)
	case hop.ForReaderOrWorker:
		return ofReaderOrWorker(p)
	default:
		return tenant.ID{}, errNoAccess
	}
}

// overseenBy gives the tenant that a principal acts for, nil for the operator.
func overseenBy(access hop.Access, p hop.Principal) (*tenant.ID, error) {
	switch access {
	case hop.ForManagerOrOperator:
		return ofManagerOrOperator(p)
	case hop.ForAdminOrOperator:
		return ofAdminOrOperator(p)
	default:
		return nil, errNoAccess
	}
}

func servesAll(access hop.Access, p hop.Principal) (struct{}, error) {
	switch {
	case access == hop.ForAnybody, access == hop.ForOperator && p.Kind == hop.PrincipalOperator:
		return struct{}{}, nil
	case access == hop.ForOperator:
		return struct{}{}, problem.New(problem.Forbidden, "This needs the operator key.")
	}
	return struct{}{}, errNoAccess
}

// ofTenant gives the tenant that a principal acts for.
func ofTenant(p hop.Principal) (tenant.ID, error) {
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
	return ofTenant(p)
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

// isReader says that a principal may read the jobs of its tenant.
func isReader(p hop.Principal) bool {
	return p.Kind == hop.PrincipalTenant && slices.Contains(p.Scopes, api.ScopeRead)
}

func ofReaderOrWorker(p hop.Principal) (tenant.ID, error) {
	if isReader(p) {
		return ofTenant(p)
	}
	return ofWorker(p)
}

// ofWorker gives the owner of a worker: a tenant, or the platform. A key that is bound to
// a user cannot claim: a claim takes the next job in line, of any user.
func ofWorker(p hop.Principal) (tenant.ID, error) {
	if p.Kind == hop.PrincipalPlatform {
		return tenant.Platform, nil
	}
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user cannot claim. Use one without a user.")
	}
	return ofTenant(p)
}

// actor is a principal as the audit log names it.
func actor(p hop.Principal) audit.Actor {
	return audit.Actor{Kind: p.Kind, KeyID: p.KeyID, User: p.User}
}
