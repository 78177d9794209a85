package httpapi

import (
	"context"

	"github.com/google/uuid"

	"github.com/forgequeue/forgequeue/core/internal/audit"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// ownedHandler serves one item of a call, for the tenant that its principal acts for.
type ownedHandler[Req, Resp any] func(context.Context, tenant.ID, api.Item[Req]) (Resp, error)

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

func owned[Req, Resp any](ownerOf func(api.Principal) (tenant.ID, error), serve ownedHandler[Req, Resp]) itemHandler[Req, Resp] {
	return func(ctx context.Context, item api.Item[Req]) (Resp, error) {
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
	return func(ctx context.Context, item api.Item[Req]) (Resp, error) {
		if item.Principal.Kind != api.PrincipalOperator {
			var none Resp
			return none, problem.New(problem.Forbidden, "This needs the operator key.")
		}
		return serve(ctx, item)
	}
}

// ofTenant gives the tenant that a principal acts for.
func ofTenant(p api.Principal) (tenant.ID, error) {
	id, err := uuid.Parse(p.Tenant)
	if p.Kind != api.PrincipalTenant || err != nil || id == tenant.Platform {
		return tenant.ID{}, problem.New(problem.Forbidden, "This needs a tenant's key.")
	}
	return id, nil
}

// ofManager gives the tenant whose queues, workers and audit log a principal may see and
// change: they are the tenant's, and a key that is bound to a user sees that user only.
func ofManager(p api.Principal) (tenant.ID, error) {
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user has access to that user's jobs only; queues, workers and the audit log belong to the tenant.")
	}
	return ofTenant(p)
}

// ofWorker gives the owner of a worker: a tenant, or the platform. A key that is bound to
// a user cannot claim: a claim takes the next job in line, of any user.
func ofWorker(p api.Principal) (tenant.ID, error) {
	if p.Kind == api.PrincipalPlatform {
		return tenant.Platform, nil
	}
	if p.User != "" {
		return tenant.ID{}, problem.New(problem.Forbidden, "A key that is bound to a user cannot claim. Use one without a user.")
	}
	return ofTenant(p)
}

// actor is a principal as the audit log names it.
func actor(p api.Principal) audit.Actor {
	return audit.Actor{Kind: p.Kind, KeyID: p.KeyID, User: p.User}
}
