package submits

import (
	"context"
	"slices"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
)

// judgeCosts refuses jobs with costs of budgets that there are not, or that are above what one ever holds. What a queue gives is
// not judged: a budget may have been deleted since.
func (s *Submits) judgeCosts(ctx context.Context, calls []Call, answers []Answer) {
	var owners []tenant.ID
	for i := range calls {
		if !calls[i].costs() || answers[i].RetryUnbatched || answers[i].Err != nil {
			continue
		}
		if calls[i].Shared {
			answers[i].RetryUnbatched = true
			continue
		}
		owners = append(owners, calls[i].Tenant)
	}
	if len(owners) == 0 {
		return
	}
	known, err := s.store.Budgets.Definitions(ctx, owners...)
	for i := range calls {
		call := &calls[i]
		if !call.costs() || answers[i].RetryUnbatched || answers[i].Err != nil {
			continue
		}
		if answers[i].Err = err; err != nil {
			continue
		}
		for j := range call.Jobs {
			if call.Refused != nil && call.Refused[j] != nil {
				continue
			}
			if wrong := known.Refuse(call.Tenant, call.Jobs[j].Costs); wrong != nil {
				call.Refused = refuse(call.Refused, len(call.Jobs), j, wrong)
			}
		}
	}
}

// costs says that a job of the call says what it may use of budgets.
func (c *Call) costs() bool {
	return slices.ContainsFunc(c.Jobs, func(j api.SubmitRequest) bool { return len(j.Costs) > 0 })
}
