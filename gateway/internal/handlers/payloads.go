package handlers

import (
	"context"
	"fmt"

	"github.com/forgequeue/forgequeue/gateway/internal/call"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
	"github.com/forgequeue/forgequeue/shared/server/hop"
	"github.com/forgequeue/forgequeue/shared/server/jobtype"
)

// typeReads bounds how often a request begins again because types change meanwhile.
const typeReads = 3

// checkSchemas gives the jobs of a submit the defaults of their types, and checks their payloads. It is called after the
// request was charged. It returns the problems of the request with those of jobs that do not fit.
func (h *Handlers) checkSchemas(ctx context.Context, c *call.Call, r *hop.SubmitJobsRequest) ([]*problem.Problem, error) {
	jobs, left := make([]*api.SubmitRequest, len(r.Jobs)), false
	for i := range r.Jobs {
		if r.Problems == nil || r.Problems[i] == nil {
			jobs[i], left = &r.Jobs[i], true
		}
	}
	if !left {
		return r.Problems, nil
	}
	found, err := h.checkTypes(ctx, c, jobs, func(i int) string {
		if !r.Batch {
			return ""
		}
		return fmt.Sprintf("jobs[%d].", i)
	})
	problems := r.Problems
	for i, p := range found {
		if p == nil {
			continue
		}
		if problems == nil {
			problems = make([]*problem.Problem, len(jobs))
		}
		problems[i] = c.Sign(p)
	}
	return problems, err
}

// checkTypes gives jobs the defaults of their types, and checks their payloads. problems runs in parallel to jobs: why
// each is refused, nil where it is not. It is nil where the tenant has no types. A nil job is left out; prefix names a
// job's fields.
func (h *Handlers) checkTypes(ctx context.Context, c *call.Call, jobs []*api.SubmitRequest, prefix func(int) string) (problems []*problem.Problem, err error) {
	owner := c.Principal().Tenant
	for range typeReads {
		set, err := h.types.Types(ctx, owner, typesVersion(c))
		if err != nil || set == nil {
			return nil, err
		}
		asks := make([]jobtype.Ask, len(jobs))
		for i, job := range jobs {
			if job == nil {
				continue
			}
			if known := set.Type(job.Type); known != nil {
				asks[i] = jobtype.Ask{Of: *known, Value: job.Payload}
			}
		}
		found, current, err := h.types.Check(ctx, owner, asks)
		if err != nil {
			return nil, err
		}
		if !current {
			continue
		}
		problems = make([]*problem.Problem, len(jobs))
		for i, job := range jobs {
			switch {
			case job == nil:
			case len(found[i]) > 0:
				problems[i] = mismatch(prefix(i)+"payload", job.Type, found[i])
			default:
				asks[i].Of.Defaults.Apply(job)
			}
		}
		return problems, nil
	}
	return nil, fmt.Errorf("%w: the types change all the time", jobtype.ErrBusy)
}

// typesVersion is that of the tenant's types, as its key has it.
func typesVersion(c *call.Call) int64 {
	if c.Caller.Key == nil {
		return 0
	}
	return c.Caller.Key.TypesVersion
}

// mismatch is the problem of a payload that does not fit. Each field is the payload's, with the JSON pointer to the
// place in it.
func mismatch(field, jobType string, found []jobtype.Mismatch) *problem.Problem {
	p := problem.New(problem.SchemaMismatch, "The payload does not fit the payload_schema of the type "+jobType+"; errors says where. GET /v1/types/"+jobType+" has the schema.")
	for i := range found {
		p.Errors = append(p.Errors, problem.FieldError{Field: field + found[i].Pointer, Message: found[i].String()})
	}
	return p
}
