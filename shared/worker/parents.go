package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
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
// It is all of them, in memory: 1,000 results of 256 KiB are 250 MB, for which there
// is EachParent. They are read again by each call, and not at all for a job that came
// after none. A job that was redriven after its parents were deleted (by retention)
// has fewer than it came after.
func (i *Info) Parents(ctx context.Context) (Parents, error) {
	parents := Parents{}
	for parent, err := range i.EachParent(ctx) {
		if err != nil {
			return nil, err
		}
		parents = append(parents, parent)
	}
	return parents, nil
}

// EachParent is Parents one by one, for many large results: it holds a page of them, about
// 1 MiB. An error ends it.
func (i *Info) EachParent(ctx context.Context) iter.Seq2[api.JobParent, error] {
	return func(yield func(api.JobParent, error) bool) {
		if len(i.After) == 0 {
			return
		}
		if i.client == nil {
			yield(api.JobParent{}, errors.New("worker: the job was not made by a worker, so that its parents cannot be read"))
			return
		}
		pages := func(ctx context.Context, page client.PageRequest) (api.Page[api.JobParent], error) {
			return i.client.Parents(ctx, i.ID, page)
		}
		for parent, err := range client.All(ctx, pages) {
			if err != nil {
				err = fmt.Errorf("worker: the parents of job %s: %w", i.ID, err)
			}
			if !yield(parent, err) {
				return
			}
		}
	}
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
