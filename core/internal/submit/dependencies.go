package submit

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/forgequeue/forgequeue/core/internal/dependency"
	"github.com/forgequeue/forgequeue/core/internal/job"
	"github.com/forgequeue/forgequeue/core/internal/jobs/read"
	"github.com/forgequeue/forgequeue/core/internal/tenant"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// After is a parent of a new job: a job that is stored already, or another one of the same atomic
// submission.
type After struct {
	Parent uuid.UUID
	// Ref, where not empty, is the parent's in the workflow to which the job is added; Parent is then
	// looked up.
	Ref      string
	OnFailed job.OnFailed
}

// link is what becomes of a new job's parents.
type link struct {
	edges []dependency.Edge
	// owed are the follow-ups of parents that have ended in a way that cancels the job.
	owed []dependency.FollowUp
	// after is what the answer shows; waits counts the unresolved edges.
	after []api.JobDependency
	waits int
}

// isLinked says whether a job of the submission comes after others, or is one of a workflow.
func (s *Submission) isLinked() bool {
	if s.Workflow != nil || s.follows != nil {
		return true
	}
	for i := range s.Jobs {
		if len(s.Jobs[i].After) > 0 {
			return true
		}
	}
	return false
}

func anyLinked(submissions []Submission) bool {
	for i := range submissions {
		if submissions[i].isLinked() {
			return true
		}
	}
	return false
}

// siblings are the jobs of an atomic submission: they are stored together, so each may come after
// another.
func (s *Submission) siblings() map[uuid.UUID]int {
	if !s.Atomic {
		return nil
	}
	places := make(map[uuid.UUID]int, len(s.Jobs))
	for j := range s.Jobs {
		places[s.Jobs[j].ID] = j
	}
	return places
}

// lockParents finds and locks the parents of all jobs that are to be stored.
func lockParents(ctx context.Context, tx pgx.Tx, submissions []Submission) (map[dependency.Key]dependency.Parent, error) {
	var wanted []dependency.Key
	seen := map[dependency.Key]bool{}
	for i := range submissions {
		s := &submissions[i]
		if !s.isLinked() {
			continue
		}
		siblings := s.siblings()
		for j := range s.Jobs {
			for _, after := range s.Jobs[j].After {
				key := dependency.Key{Tenant: s.Tenant, ID: after.Parent}
				if _, sibling := siblings[after.Parent]; !sibling && !seen[key] {
					seen[key] = true
					wanted = append(wanted, key)
				}
			}
		}
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	return dependency.LockParents(ctx, tx, wanted)
}

// linkAll links submissions. A job whose dedupe_key a live one has is answered with that one, whatever
// has become of its parents since.
func linkAll(ctx context.Context, tx pgx.Tx, submissions []Submission, parents map[dependency.Key]dependency.Parent) error {
	if !anyLinked(submissions) {
		return nil
	}
	var of *Submission
	var siblings map[uuid.UUID]int
	orphaned := func(s *Submission, j int) bool {
		if of != s {
			of, siblings = s, s.siblings()
		}
		return slices.ContainsFunc(s.Jobs[j].After, func(after After) bool {
			_, isSibling := siblings[after.Parent]
			return !isSibling && !s.sees(parents, after.Parent)
		})
	}
	if err := findHolders(ctx, tx, submissions, orphaned); err != nil {
		return err
	}
	for i := range submissions {
		submissions[i].link(parents)
	}
	return nil
}

// sees says whether a parent exists, and the caller may see it.
func (s *Submission) sees(parents map[dependency.Key]dependency.Parent, id uuid.UUID) bool {
	parent, ok := parents[dependency.Key{Tenant: s.Tenant, ID: id}]
	return ok && (s.User == "" || parent.UserID != nil && *parent.UserID == s.User)
}

// link decides what the parents mean for each job, and refuses a job with a parent that does not
// exist, or that the caller must not see.
func (s *Submission) link(parents map[dependency.Key]dependency.Parent) {
	if !s.isLinked() {
		return
	}
	siblings := s.siblings()
	s.links, s.parents = make([]link, len(s.Jobs)), make([]bool, len(s.Jobs))
	for j := range s.Jobs {
		var unknown []problem.FieldError
		for i, after := range s.Jobs[j].After {
			if sibling, ok := siblings[after.Parent]; ok {
				s.parents[sibling] = true
				s.links[j].wait(s.Tenant, s.Jobs[j].ID, after, string(job.Queued))
				continue
			}
			if !s.sees(parents, after.Parent) {
				unknown = append(unknown, problem.FieldError{
					Field: s.prefix(j) + fmt.Sprintf("after[%d]", i), Message: "is not the id of a job: the job does not exist, or is past its retention",
				})
				continue
			}
			s.links[j].add(s.Tenant, s.Jobs[j].ID, after, parents[dependency.Key{Tenant: s.Tenant, ID: after.Parent}])
		}
		if len(unknown) > 0 && s.refusal(j) == nil && s.holder(j) == nil {
			s.refuse(j, problem.Invalid(unknown...))
		}
	}
}

// prefix is before the name of a job's field.
func (s *Submission) prefix(j int) string {
	if s.Batch {
		return fmt.Sprintf("jobs[%d].", j)
	}
	return ""
}

// wait adds an edge to a live parent.
func (l *link) wait(owner tenant.ID, child uuid.UUID, after After, state string) *dependency.Edge {
	l.waits++
	l.after = append(l.after, api.JobDependency{JobID: after.Parent.String(), State: state, OnFailed: string(after.OnFailed)})
	l.edges = append(l.edges, dependency.Edge{Tenant: owner, Parent: after.Parent, Child: child, OnFailed: after.OnFailed})
	return &l.edges[len(l.edges)-1]
}

// add adds an edge to a parent that is stored. One that has ended counts as it ended: where that
// cancels the job, its follow-up does so, as for a job that was stored before.
func (l *link) add(owner tenant.ID, child uuid.UUID, after After, parent dependency.Parent) {
	edge := l.wait(owner, child, after, string(parent.State))
	edge.Redrives = parent.Redrives
	if !parent.State.Terminal() {
		return
	}
	switch job.EffectOf(parent.State, after.OnFailed) {
	case job.Resolve:
		edge.Resolved = true
		l.waits--
	case job.CancelIt:
		l.owed = append(l.owed, dependency.FollowUp{Tenant: owner, Job: parent.ID, State: parent.State, Redrives: parent.Redrives})
	case job.Keep:
	}
}

// storeLinks queues the edges of the jobs that were stored, and shows them in the answers. It says
// whether follow-ups are among them.
func storeLinks(batch *pgx.Batch, submissions []Submission, results [][]JobResult) (followUps bool) {
	var edges []dependency.Edge
	var owed []dependency.FollowUp
	for i := range submissions {
		for j := range submissions[i].links {
			made, result := &submissions[i].links[j], &results[i][j]
			if result.Row == nil || result.Deduplicated || len(made.edges) == 0 && submissions[i].Workflow == nil {
				continue
			}
			if w := submissions[i].Workflow; w != nil {
				result.Row.Workflow = &api.JobWorkflow{ID: w.ID.String(), Ref: w.Refs[j]}
			}
			edges, owed = append(edges, made.edges...), append(owed, made.owed...)
			made.show(result.Row)
		}
	}
	dependency.Add(batch, edges)
	dependency.Append(batch, owed)
	return len(owed) > 0
}

func (l *link) show(row *read.Row) {
	row.Linked, row.After = true, l.after
	if l.waits > 0 {
		row.BlockedBy = &l.waits
	}
}

// flags are the columns of a new job that says what it waits for and who for it.
func (s *Submission) flags(j int) (blocked, linked, hasDependents bool) {
	if s.links == nil {
		return false, false, false
	}
	return s.links[j].waits > 0, len(s.links[j].edges) > 0 || s.Workflow != nil, s.parents[j]
}
