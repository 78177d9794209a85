package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/shared/problem"
)

// MaxWorkflowJobs bounds the jobs of one workflow; a request may bring MaxBatchJobs of them.
const MaxWorkflowJobs = 10_000

// MaxWorkflowEdges bounds the entries of after of all jobs of one workflow.
const MaxWorkflowEdges = 100_000

// The states of a workflow. They are read from its jobs.
const (
	// WorkflowRunning: a job of it lives.
	WorkflowRunning = "running"
	// WorkflowCompleted: all of its jobs have completed.
	WorkflowCompleted = "completed"
	// WorkflowFailed: it has ended otherwise.
	WorkflowFailed = "failed"
	// WorkflowCancelled: a job was cancelled by a person, and none is a dead letter.
	WorkflowCancelled = "cancelled"
)

// WorkflowStates are all of them.
func WorkflowStates() []string {
	return []string{WorkflowRunning, WorkflowCompleted, WorkflowFailed, WorkflowCancelled}
}

// WorkflowRequest makes a workflow: jobs that come after each other.
type WorkflowRequest struct {
	// Name is for people, and lists are filtered by it; like a type. "workflow" if empty.
	Name     string            `json:"name,omitzero"`
	Metadata map[string]string `json:"metadata,omitzero"`
	// Jobs are 1 to 1000.
	Jobs []WorkflowJobRequest `json:"jobs"`
}

// WorkflowJobRequest is a job of a workflow. It has no dedupe_key.
type WorkflowJobRequest struct {
	// Ref names the job in its workflow; like a type.
	Ref string `json:"ref"`
	SubmitRequest
	// After are refs of jobs of the same workflow that must have ended before, at most 1000.
	After []WorkflowDependency `json:"after,omitzero"`
}

// WorkflowJobsRequest adds jobs to a running workflow. They may come after its earlier jobs.
type WorkflowJobsRequest struct {
	Jobs []WorkflowJobRequest `json:"jobs"`
}

// WorkflowDependency names a job of the same workflow: the ref as a string, or an object with a
// policy.
type WorkflowDependency struct {
	Ref string `json:"ref"`
	// OnFailed is cancel, run or hold; cancel if empty.
	OnFailed string `json:"on_failed,omitzero"`
}

// Policy is OnFailed with its default.
func (d *WorkflowDependency) Policy() string { return cmp.Or(d.OnFailed, OnFailedCancel) }

// UnmarshalJSON reads a string or an object.
func (d *WorkflowDependency) UnmarshalJSON(text []byte) error {
	type plain WorkflowDependency
	*d = WorkflowDependency{}
	return textOrObject(text, &d.Ref, (*plain)(d))
}

// Workflow is WORKFLOW of the contract.
type Workflow struct {
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	User     *string           `json:"user"`
	State    string            `json:"state"`
	Metadata map[string]string `json:"metadata"`
	// Counts are of its jobs that are still kept.
	Counts     WorkflowCounts `json:"counts"`
	CreatedAt  Time           `json:"created_at" swaggertype:"string" format:"date-time"`
	FinishedAt *Time          `json:"finished_at" swaggertype:"string" format:"date-time"`
}

// WorkflowCounts counts jobs by their state.
type WorkflowCounts struct {
	Blocked    int `json:"blocked"`
	Scheduled  int `json:"scheduled"`
	Waiting    int `json:"waiting"`
	Queued     int `json:"queued"`
	Running    int `json:"running"`
	Completed  int `json:"completed"`
	Cancelled  int `json:"cancelled"`
	DeadLetter int `json:"dead_letter"`
}

// Live counts the jobs that have not ended.
func (c *WorkflowCounts) Live() int {
	return c.Blocked + c.Scheduled + c.Waiting + c.Queued + c.Running
}

// Ended counts the jobs that have ended.
func (c *WorkflowCounts) Ended() int { return c.Completed + c.Cancelled + c.DeadLetter }

// WorkflowDetail is a workflow with its jobs.
type WorkflowDetail struct {
	Workflow
	Jobs []WorkflowJob `json:"jobs"`
}

// WorkflowJob is a job as its workflow shows it.
type WorkflowJob struct {
	Ref        string          `json:"ref"`
	ID         string          `json:"id"`
	Type       string          `json:"type"`
	State      string          `json:"state"`
	After      []JobDependency `json:"after"`
	StartedAt  *Time           `json:"started_at" swaggertype:"string" format:"date-time"`
	FinishedAt *Time           `json:"finished_at" swaggertype:"string" format:"date-time"`
}

// JobWorkflow says of which workflow a job is, and under which name.
type JobWorkflow struct {
	ID  string `json:"id"`
	Ref string `json:"ref"`
}

// ClaimedParent is a parent as a claim names it.
type ClaimedParent struct {
	// Ref is its name in the workflow, null for a job of no workflow.
	Ref   *string `json:"ref"`
	JobID string  `json:"job_id"`
	State string  `json:"state"`
}

// JobParent is a parent as its child's worker sees it.
type JobParent struct {
	// Ref is its name in the workflow, null for a job of no workflow.
	Ref   *string `json:"ref"`
	JobID string  `json:"job_id"`
	Type  string  `json:"type" sensitive:"type"`
	State string  `json:"state"`
	// Result is null unless the parent has completed with one.
	Result json.RawMessage `json:"result" swaggertype:"object" sensitive:"result"`
}

// WorkflowFilter chooses workflows; an empty field chooses all.
type WorkflowFilter struct {
	State string `json:"state,omitzero"`
	Name  string `json:"name,omitzero"`
}

// Validate tells which fields cannot be accepted, those of single jobs included.
func (w *WorkflowRequest) Validate(now time.Time) []problem.FieldError { return validate(w, "", now) }

func (w *WorkflowRequest) rules(r refusals) {
	r.text("name", orNil(w.Name), &nameText)
	r.metadata(w.Metadata)
	r.workflowJobs(w.Jobs, false)
}

// Validate tells which fields cannot be accepted. Whether a ref that is not in the request is one of
// the workflow is for core to say.
func (w *WorkflowJobsRequest) Validate(now time.Time) []problem.FieldError {
	return validate(w, "", now)
}

func (w *WorkflowJobsRequest) rules(r refusals) { r.workflowJobs(w.Jobs, true) }

// workflowJobs checks jobs and how they come after each other. adding says that refs may also be of
// jobs that are there already.
func (r refusals) workflowJobs(jobs []WorkflowJobRequest, adding bool) {
	r.items("jobs", len(jobs), 1, MaxBatchJobs, "")
	places, edges := map[string]int{}, 0
	for i := range jobs {
		if first, twice := places[jobs[i].Ref]; twice {
			r.add(fmt.Sprintf("jobs[%d].ref", i), "is also the ref of jobs[%d]; each job needs its own", first)
			continue
		}
		places[jobs[i].Ref] = i
	}
	for i := range jobs {
		one, in := &jobs[i], r.in(fmt.Sprintf("jobs[%d].", i))
		one.rules(in)
		edges += len(one.After)
		in.refs(one, places, adding)
	}
	r.edges(edges)
	if len(r.fields) == 0 {
		r.cycle(jobs, places)
	}
}

func (w *WorkflowJobRequest) rules(r refusals) {
	w.SubmitRequest.rules(r)
	r.text("ref", &w.Ref, &nameText)
	r.check(w.DedupeKeyOf() == nil, "dedupe_key", "is not allowed in a workflow: the live job with this key may belong to another workflow")
	r.items("after", len(w.After), 0, MaxWorkflowAfter, "")
}

func (d *WorkflowDependency) rules(r refusals) {
	r.rule("ref", nameText.Rule)
	r.words("on_failed", orNil(d.OnFailed), policyWords)
}

// refs checks what a job of a workflow comes after.
func (r refusals) refs(of *WorkflowJobRequest, places map[string]int, adding bool) {
	seen := map[string]int{}
	for i := range of.After {
		field := fmt.Sprintf("after[%d]", i)
		ref := of.After[i].Ref
		first, twice := seen[ref]
		_, known := places[ref]
		switch {
		case !ValidName(ref):
			r.add(field, "must be the ref of a job, or an object with its ref")
		case ref == of.Ref:
			r.add(field, "is the job itself")
		case twice:
			r.add(field, "is the same job as after[%d]", first)
		case !known && !adding:
			r.add(field, "there is no job with the ref %q", ref)
		}
		seen[ref] = i
		if of.After[i].OnFailed != "" {
			of.After[i].rules(r.in(field + "."))
		}
	}
}

// cycle refuses jobs that come after each other in a circle, and names them in order. It does not
// recurse: a chain may be as long as a request.
func (r refusals) cycle(jobs []WorkflowJobRequest, places map[string]int) {
	const fresh, open, done = 0, 1, 2
	state := make([]int, len(jobs))
	next := make([]int, len(jobs)) // which parent of an open job is looked at
	for start := range jobs {
		if state[start] != fresh {
			continue
		}
		path := []int{start}
		state[start] = open
		for len(path) > 0 {
			at := path[len(path)-1]
			if next[at] == len(jobs[at].After) {
				state[at] = done
				path = path[:len(path)-1]
				continue
			}
			parent, known := places[jobs[at].After[next[at]].Ref]
			next[at]++
			switch {
			case !known || state[parent] == done:
			case state[parent] == open:
				r.add(fmt.Sprintf("jobs[%d].after", at), "is a cycle: %s", circle(jobs, path, parent))
				return
			default:
				state[parent] = open
				path = append(path, parent)
			}
		}
	}
}

// circle names the jobs of a cycle, each after the one before it.
func circle(jobs []WorkflowJobRequest, path []int, from int) string {
	refs := []string{jobs[from].Ref}
	for _, at := range slices.Backward(path) {
		refs = append(refs, jobs[at].Ref)
		if at == from {
			break
		}
	}
	const most = 20
	if len(refs) > most {
		refs = append(append(refs[:most/2:most/2], "…"), refs[len(refs)-most/2:]...)
	}
	return strings.Join(refs, " → ")
}
