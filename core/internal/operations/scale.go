package operations

import (
	"context"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// ScaleQueue says how many slots of workers a queue needs, from what is counted of it anyway.
//
//	@x-problems  ["not_found"]
//	@x-example-queue {"name": "default", "target_wait_ms": 30000, "cold_start_ms": 60000}
func (o *Operations) ScaleQueue(ctx context.Context, owner tenant.ID, item hop.Item[hop.ScaleQueueRequest]) (api.Scale, error) {
	request := &item.Request
	if request.TargetWaitMS < 0 || request.TargetWaitMS > api.MaxTargetWaitMS || request.ColdStartMS < 0 || request.ColdStartMS > api.MaxColdStartMS {
		return api.Scale{}, problem.New(problem.InvalidRequest, "target_wait_ms and cold_start_ms must be at most a day.")
	}
	target := time.Duration(request.TargetWaitMS) * time.Millisecond
	if target == 0 {
		target = api.DefaultTargetWaitMS * time.Millisecond
	}
	return o.Engine.Explainer.Scale(ctx, owner, request.Name, target, time.Duration(request.ColdStartMS)*time.Millisecond)
}
