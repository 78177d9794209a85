package operations

import (
	"context"
	"slices"
	"time"

	"github.com/forgequeue/forgequeue/core/internal/answers"
	"github.com/forgequeue/forgequeue/core/internal/publish"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
)

// PatchJob changes a job that waits.
//
//	@x-problems  ["not_found", "job_started", "precondition_failed", "queue_full", "too_many_lanes", "schema_mismatch"]
//	@x-example-priority {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0001", "patch": {"priority": 9}}
func (o *Operations) PatchJob(ctx context.Context, owner tenant.ID, item hop.Item[hop.PatchJobRequest]) (api.Job, error) {
	id, err := jobID(item.Request.ID)
	if err != nil {
		return api.Job{}, err
	}
	patch := item.Request.Patch
	if fields := patch.Validate(time.Now()); len(fields) > 0 {
		return api.Job{}, problem.Invalid(fields...)
	}
	view, err := o.Store.Masks.View(ctx, item.Principal) // its tag is of what the caller sees
	if err != nil {
		return api.Job{}, err
	}
	var matches func(*api.Job) (bool, error)
	if tags := item.Request.IfMatch; len(tags) > 0 {
		matches = func(job *api.Job) (bool, error) {
			shown, err := view.Job(ctx, *job)
			if err != nil {
				return false, err
			}
			text, err := answers.JSON(&shown)
			return slices.Contains(tags, hop.ETag(text)), err
		}
	}
	check := func(jobType string) error {
		refused, err := o.checkTypes(ctx, owner, []api.SubmitRequest{{Type: jobType, Payload: patch.Payload}})
		if err == nil && refused[0] != nil {
			return refused[0]
		}
		return err
	}
	job, made, err := o.Engine.Submits.Patch(ctx, owner, item.Principal.User, id, &patch, matches, check)
	if err != nil {
		return api.Job{}, err
	}
	o.Engine.Publisher.Publish(ctx, publish.Changes{Amended: made})
	return job, nil
}
