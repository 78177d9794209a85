package httpapi

import (
	"context"

	"github.com/forgequeue/forgequeue/gateway/internal/admission"
	"github.com/forgequeue/forgequeue/gateway/internal/coreclient"
	"github.com/forgequeue/forgequeue/gateway/internal/request"
	"github.com/forgequeue/forgequeue/shared/api"
)

// limits answers GET /v1/limits: the rates that hold for the caller, and the caps,
// each with what is left at this moment. Asking costs nothing. With a user-bound
// key, or user in the query of another, its user's are among them; a user-bound
// key that asks for another's gets 403. While Redis is away the rates are those of
// this gateway alone; without core there is no answer, since only it knows what is
// used of the caps.
//
//	@Summary     What you may still do
//	@Description The rates that hold for the caller and the caps on jobs, each with what is left at this moment. Asking costs nothing. With `user` that user's are among them. While Redis is away the rates are those of the gateway that answers.
//	@ID          getLimits
//	@Tags        Self
//	@Param       user query string false "The user whose limits are wanted too; a user-bound key has its own."
//	@Success     200 {object} api.LimitsResponse "Rates and caps."
//	@x-access    "tenant key"
//	@Router      /v1/limits [get]
func (s *Server) limits(ctx context.Context, c *call, _ none) (reply[api.LimitsResponse], error) {
	var nothing reply[api.LimitsResponse]
	q := request.NewQuery(c.query)
	user := q.Label("user")
	if err := q.Err(); err != nil {
		return nothing, err
	}
	who := c.principal()
	if who.User != "" && user != "" && user != who.User {
		return nothing, anotherUser("user", "The key acts for one user, and this asks for another's limits.")
	}
	if user == "" {
		user = who.User
	}
	used, err := send[api.HopCapsRequest, api.HopCapsResponse](ctx, s, c, coreclient.Read(api.HopCaps), api.HopCapsRequest{User: user})
	if err != nil {
		return nothing, err
	}
	if user != who.User { // or the headers' own look has it all
		s.limiter.Look(ctx, &c.account, user)
	}
	return reply[api.LimitsResponse]{value: api.LimitsResponse{
		Policies: policyUses(c.account.Decision), Caps: append([]api.CapUse{}, used.value.Caps...),
	}}, nil
}

func policyUses(d *admission.Decision) []api.PolicyUse {
	uses := make([]api.PolicyUse, len(d.Policies))
	for i, policy := range d.Policies {
		uses[i] = api.PolicyUse{
			Name: policy.Name, RatePerSecond: policy.Rate, Burst: policy.Limit,
			Remaining: policy.Remaining, ResetMS: wholeMilliseconds(policy.Reset).Milliseconds(),
		}
	}
	return uses
}
