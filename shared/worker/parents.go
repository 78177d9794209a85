package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Parents are the jobs that one came after, with their results.
type Parents []api.JobParent

// Parents reads the jobs that this one came after, with the results of those that
// have completed, from the server (GET /v1/jobs/{id}/parents):
//
//	parents, err := job.Parents(ctx)
//	if err != nil {
//		return Sum{}, err
//	}
//	var rows Rows
//	if err := parents.Result("extract", &rows); err != nil {
//		return Sum{}, err
//	}
//
// The answer may have 25 MB: 100 results of 256 KiB. It is read again by each call, and
// not at all for a job that came after none. A job that was redriven after its
// parents were deleted (by retention) has fewer than it came after.
func (i *Info) Parents(ctx context.Context) (Parents, error) {
	if len(i.After) == 0 {
		return Parents{}, nil
	}
	if i.client == nil {
		return nil, errors.New("worker: the job was not made by a worker, so that its parents cannot be read")
	}
	answer, err := i.client.Parents(ctx, i.ID)
	if err != nil {
		return nil, fmt.Errorf("worker: the parents of job %s: %w", i.ID, err)
	}
	return Parents(answer.Items), nil
}

// Of finds the parent with a ref; false if there is none.
func (p Parents) Of(ref string) (api.JobParent, bool) {
	for _, parent := range p {
		if parent.Ref != nil && *parent.Ref == ref {
			return parent, true
		}
	}
	return api.JobParent{}, false
}

// Result decodes the result of the parent with a ref into what into points to. It is
// an error if there is no such parent, or if it has not completed: after a failure,
// which only the policy "run" lets pass, there is no result.
func (p Parents) Result(ref string, into any) error {
	parent, ok := p.Of(ref)
	switch {
	case !ok:
		return fmt.Errorf("worker: no parent that is still kept has the ref %q", ref)
	case parent.State != api.StateCompleted:
		return fmt.Errorf("worker: the parent %q has no result: it is %s", ref, parent.State)
	}
	result := parent.Result
	if len(result) == 0 {
		result = json.RawMessage("null")
	}
	if err := json.Unmarshal(result, into); err != nil {
		return fmt.Errorf("worker: the result of the parent %q does not fit: %w", ref, err)
	}
	return nil
}
