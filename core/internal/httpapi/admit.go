package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/core/internal/principals"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// admitted is a handler that serves the items whose principal an operation's access names, and refuses the others.
type admitted[Req, Resp any] func(hop.Access) itemHandler[Req, Resp]

// owned serves for the tenant that the principal acts for.
func owned[Req, Resp any](serve func(context.Context, tenant.ID, hop.Item[Req]) (Resp, error)) admitted[Req, Resp] {
	return admitting(principals.OwnerOf, serve)
}

// overseen serves for a tenant, or for the operator: then the tenant is nil.
func overseen[Req, Resp any](serve func(context.Context, *tenant.ID, hop.Item[Req]) (Resp, error)) admitted[Req, Resp] {
	return admitting(principals.OverseenBy, serve)
}

// plain serves what belongs to no tenant.
func plain[Req, Resp any](serve itemHandler[Req, Resp]) admitted[Req, Resp] {
	return admitting(principals.ServesAll, func(ctx context.Context, _ struct{}, item hop.Item[Req]) (Resp, error) { return serve(ctx, item) })
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
