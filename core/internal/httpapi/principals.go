package httpapi

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/hop"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ownedHandler serves one item of a call, for the tenant that its principal acts for.
type ownedHandler[Req, Resp any] func(context.Context, tenant.ID, hop.Item[Req]) (Resp, error)

// forTenant serves principals of a tenant; one that is bound to a user acts for that user.
func forTenant[Req, Resp any](serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofTenant, serve)
}

// forManager serves principals of a tenant that are not bound to a user.
func forManager[Req, Resp any](serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofManager, serve)
}

// forWorker serves workers: a tenant's, or the platform's.
func forWorker[Req, Resp any](serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofWorker, serve)
}

// forManagerOrPlatform serves those whom forManager serves, and the platform.
func forManagerOrPlatform[Req, Resp any](serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofManagerOrPlatform, serve)
}

// forReaderOrWorker serves a tenant's keys with the scope read, and workers.
func forReaderOrWorker[Req, Resp any](serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofReaderOrWorker, serve)
}

// overseenHandler serves one item of a call, for a tenant, or for the operator: then the tenant is nil.
type overseenHandler[Req, Resp any] func(context.Context, *tenant.ID, hop.Item[Req]) (Resp, error)

// forManagerOrOperator serves principals of a tenant that are not bound to a user, and the operator.
func forManagerOrOperator[Req, Resp any](serve overseenHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofManagerOrOperator, serve)
}

// forAdminOrOperator serves principals of a tenant with the scope admin that are not bound to a user, and the operator.
func forAdminOrOperator[Req, Resp any](serve overseenHandler[Req, Resp]) itemHandler[Req, Resp] {
	return owned(ofAdminOrOperator, serve)
}

// forAnybody does not look at the principal.
func forAnybody[Req, Resp any](serve itemHandler[Req, Resp]) itemHandler[Req, Resp] { return serve }

func owned[Owner, Req, Resp any](
	ownerOf func(hop.Principal) (Owner, error), serve func(context.Context, Owner, hop.Item[Req]) (Resp, error),
) itemHandler[Req, Resp] {
	return func(ctx context.Context, item hop.Item[Req]) (Resp, error) {
		owner, err := ownerOf(item.Principal)
		if err != nil {
			var none Resp
			return none, err
		}
		return serve(ctx, owner, item)
	}
}

// forOperator serves the operator.
func forOperator[Req, Resp any](serve itemHandler[Req, Resp]) itemHandler[Req, Resp] {
	return func(ctx context.Context, item hop.Item[Req]) (Resp, error) {
		if item.Principal.Kind != hop.PrincipalOperator {
			var none Resp
			return none, problem.New(problem.Forbidden, "This needs the operator key.")
		}
		return serve(ctx, item)
	}
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
