package submit

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/store"
	"github.com/forgequeue/forgequeue/core/internal/workflow"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// lockWorkflows locks the workflows to which jobs are added, and looks up the refs of their parents.
// The submissions are of one tenant at a time, see Guarded, or in the order of the tenants' locks.
func lockWorkflows(ctx context.Context, tx pgx.Tx, submissions []Submission) (map[uuid.UUID]*workflow.Held, error) {
	held := map[uuid.UUID]*workflow.Held{}
	for i := range submissions {
		s := &submissions[i]
		if s.Workflow == nil || !s.Workflow.Add {
			continue
		}
		found, err := workflow.Lock(ctx, tx, s.Tenant, s.User, s.Workflow.ID, s.refs())
		if errors.Is(err, store.ErrNotFound) {
			s.refuse(0, problem.New(problem.NotFound, "There is no workflow with this id."))
			continue
		}
		if err != nil {
			return nil, err
		}
		held[s.Workflow.ID] = found
		s.resolve(found)
	}
	return held, nil
}

// refs are those that the submission adds or names.
func (s *Submission) refs() []string {
	refs := append([]string(nil), s.Workflow.Refs...)
	for i := range s.Jobs {
		for _, after := range s.Jobs[i].After {
			if after.Ref != "" {
				refs = append(refs, after.Ref)
			}
		}
	}
	return refs
}

// resolve refuses what cannot be added, and sets the parents of the others.
func (s *Submission) resolve(held *workflow.Held) {
	if held.Counts.Live() == 0 {
		s.refuse(0, problem.New(problem.WorkflowEnded, "The workflow has ended ("+held.State+"): no job can be added. Submit a new one."))
		return
	}
	if held.Size+len(s.Jobs) > api.MaxWorkflowJobs {
		s.refuse(0, problem.Invalid(problem.FieldError{
			Field: "jobs", Message: fmt.Sprintf("would give the workflow %d jobs; the maximum is %d", held.Size+len(s.Jobs), api.MaxWorkflowJobs),
		}))
		return
	}
	edges := held.Edges
	for j := range s.Jobs {
		edges += len(s.Jobs[j].After)
	}
	if edges > api.MaxWorkflowEdges {
		s.refuse(0, problem.Invalid(problem.FieldError{
			Field: "jobs", Message: fmt.Sprintf("would give the workflow %d entries of after in total; the maximum is %d", edges, api.MaxWorkflowEdges),
		}))
		return
	}
	s.resolveRefs(held)
}

// resolveRefs sets the parents that are named by refs of the workflow. Jobs of a user's workflow are that
// user's: a key that sees the workflow sees them.
func (s *Submission) resolveRefs(held *workflow.Held) {
	var wrong []problem.FieldError
	for j := range s.Jobs {
		if user := s.Jobs[j].User; held.User != nil && (user == nil || *user != *held.User) {
			wrong = append(wrong, problem.FieldError{Field: s.prefix(j) + "user", Message: fmt.Sprintf("must be %q: the workflow belongs to this user", *held.User)})
		}
		if _, taken := held.Jobs[s.Workflow.Refs[j]]; taken {
			wrong = append(wrong, problem.FieldError{Field: s.prefix(j) + "ref", Message: "is already the ref of another job of the workflow"})
		}
		for i := range s.Jobs[j].After {
			after := &s.Jobs[j].After[i]
			if after.Ref == "" {
				continue
			}
			parent, known := held.Jobs[after.Ref]
			if !known {
				wrong = append(wrong, problem.FieldError{
					Field: s.prefix(j) + fmt.Sprintf("after[%d]", i), Message: fmt.Sprintf("the workflow has no job with the ref %q", after.Ref),
				})
			}
			after.Parent = parent
		}
	}
	if len(wrong) > 0 {
		s.refuse(0, problem.Invalid(wrong...))
	}
}

// storeWorkflow queues the rows of the submission's workflow, and gives it as it is now. held is nil for a
// new one.
func (s *Submission) storeWorkflow(batch *pgx.Batch, held *workflow.Held, results []JobResult) *api.Workflow {
	jobs := make([]uuid.UUID, len(results))
	for j := range results {
		jobs[j] = results[j].Row.ID
	}
	workflow.Add(batch, s.Tenant, s.User, s.Workflow, jobs)
	shown := api.Workflow{
		ID: s.Workflow.ID.String(), Name: s.Workflow.Name, State: api.WorkflowRunning, Metadata: store.Metadata(s.Workflow.Metadata),
		CreatedAt: api.At(results[0].Row.CreatedAt),
	}
	if s.User != "" {
		shown.User = &s.User
	}
	if held != nil {
		shown = held.Workflow
	}
	for j := range results {
		switch results[j].Row.State {
		case api.StateBlocked:
			shown.Counts.Blocked++
		case api.StateScheduled:
			shown.Counts.Scheduled++
		default:
			shown.Counts.Queued++
		}
	}
	return &shown
}
