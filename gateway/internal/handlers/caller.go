package handlers

import (
	"context"
	"math"
	"net/http"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// Whoami reads your key. It does not call core:
// the key was looked up for authentication.
//
//	@ID          getWhoami
//	@Description The key's tenant, user, scopes and plan. It is not charged to any limit.
//	@Success     200 {object} api.Whoami "The key."
func (h *Handlers) Whoami(_ context.Context, c *call.Call, _ call.None) (call.Response[api.Whoami], error) {
	who := c.Principal()
	answer := api.Whoami{Scopes: append([]string{}, who.Scopes...), KeyID: who.KeyID}
	if who.Tenant != "" {
		answer.Tenant = &who.Tenant
		if name := c.Caller.Key.TenantName; name != "" { // a core before this gateway gives none
			answer.TenantName = &name
		}
	}
	if who.User != "" {
		answer.User = &who.User
	}
	if plan := c.Caller.Key.Plan; plan != nil {
		answer.Plan = &plan.Name
	}
	answer.SessionsEnded = c.Caller.Key.SessionsEnded
	return call.Response[api.Whoami]{Value: answer}, nil
}

// EndSessions ends your key's console sessions.
//
//	@Description Signs out every browser that has signed in to the console with this key, and makes unused sign-in links invalid. This gateway refuses them at once, other gateways within 30 s. The key itself stays valid, and can sign in again.
//	@Success     204 "The sessions have ended."
func (h *Handlers) EndSessions(ctx context.Context, c *call.Call, _ call.None) (call.Response[call.None], error) {
	id := c.Principal().KeyID
	h.auth.Forget(id) // before as well as after, as for a revocation
	_, err := call.Send(ctx, h.core, c, hop.EndSessions, struct{}{})
	h.auth.Forget(id)
	return call.Response[call.None]{Status: http.StatusNoContent}, err
}

// Limits reads your limits. With a user-bound key, or
// user in the query of another, that user's are among them; a user-bound key that
// asks for another's gets 403. While Redis is away the rates are those of this
// gateway alone; without core there is no answer, since only core has the use of the
// caps.
//
//	@Description The caller's rates and caps, each with what is left now. It is not charged to any limit. With `user`, that user's limits are included. While Redis is unavailable, the rates are those of the gateway that answers. `shared_time` is what your tenant has used, in the last seconds, of the time of the gateway's processors and of core's database connections; while requests wait, the tenant that has used less goes first.
//	@ID          getLimits
//	@Tags        Self
//	@Param       user query string false "Include this user's limits. A key that is bound to a user always gets its own."
//	@Success     200 {object} api.LimitsResponse "Rates and caps."
func (h *Handlers) Limits(ctx context.Context, c *call.Call, _ call.None) (call.Response[api.LimitsResponse], error) {
	var nothing call.Response[api.LimitsResponse]
	q := request.NewQuery(c.Query)
	user := q.Label("user")
	if err := q.Err(); err != nil {
		return nothing, err
	}
	who := c.Principal()
	if who.User != "" && user != "" && user != who.User {
		return nothing, anotherUser("user", "The key is bound to a user, and the request asks for the limits of another user.")
	}
	if user == "" {
		user = who.User
	}
	used, err := call.Send(ctx, h.core, c, hop.ListCaps, hop.CapsRequest{User: user})
	if err != nil {
		return nothing, err
	}
	if user != who.User { // otherwise the look for the headers has them all
		h.limiter.Look(ctx, &c.Payer, user)
	}
	return call.Response[api.LimitsResponse]{Value: api.LimitsResponse{
		Policies: policyUses(c.Payer.Decision), Caps: append([]api.CapUse{}, used.Value.Caps...),
		SharedTime: api.SharedTime{Gateway: thousandths(h.processors.Used(who.Tenant)), Database: thousandths(used.Value.Database)},
	}}, nil
}

func thousandths(part float64) float64 { return math.Round(part*1000) / 1000 }

func policyUses(d *admission.Decision) []api.PolicyUse {
	uses := make([]api.PolicyUse, len(d.Policies))
	for i, policy := range d.Policies {
		uses[i] = api.PolicyUse{
			Name: policy.Name, RatePerSecond: policy.Rate, Burst: policy.Limit,
			Remaining: policy.Remaining, ResetMS: admission.WholeMilliseconds(policy.Reset).Milliseconds(),
		}
	}
	return uses
}
