package console

import (
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
)

// jobsOfWorkflow is how many jobs the list beside a graph has.
const jobsOfWorkflow = 200

// maxWaitsFor is how many of the jobs that a job waits for are named.
const maxWaitsFor = 3

type workflowsPage struct {
	Items  []workflowRow
	Older  string
	States []stateChoice
	Name   string
	Deep   bool
	// Filtered says that not all are asked for.
	Filtered bool
}

type workflowRow struct {
	api.Workflow

	Bar  []share
	Done int
	All  int
	// Depths are the counts by state, without zeros.
	Depths []depth
}

func listWorkflows(v *visit.Visit) (visit.Page, error) {
	given := v.Request.URL.Query()
	state, name := given.Get("state"), given.Get("name")
	page := workflowsPage{Name: name, Deep: v.Deep(), Filtered: state != "" || name != ""}
	for _, one := range api.WorkflowStates() {
		page.States = append(page.States, stateChoice{one, one == state})
	}
	workflows, err := v.API.Workflows(v.Context(), api.WorkflowFilter{State: state, Name: name}, v.PageRequest(50))
	if err != nil {
		return visit.Page{}, err
	}
	for _, one := range workflows.Items {
		page.Items = append(page.Items, newWorkflowRow(one))
	}
	page.Older = v.Older(workflows.NextPageToken)
	return visit.Page{Template: "workflows", Title: "Workflows", Data: page}, nil
}

func newWorkflowRow(of api.Workflow) workflowRow {
	row := workflowRow{Workflow: of, Done: of.Counts.Completed}
	counts := []struct {
		state string
		n     int
	}{
		{api.StateCompleted, of.Counts.Completed},
		{api.StateRunning, of.Counts.Running},
		{api.StateQueued, of.Counts.Queued},
		{api.StateScheduled, of.Counts.Scheduled},
		{api.StateWaiting, of.Counts.Waiting},
		{api.StateBlocked, of.Counts.Blocked},
		{api.StateCancelled, of.Counts.Cancelled},
		{api.StateDeadLetter, of.Counts.DeadLetter},
	}
	for _, one := range counts {
		row.All += one.n
	}
	x := 0.0
	for _, one := range counts {
		if one.n > 0 {
			width := float64(one.n) / float64(row.All) * 1000
			row.Bar = append(row.Bar, share{one.state, x, width})
			row.Depths = append(row.Depths, depth{State: one.state, Count: view.Number(int64(one.n))})
			x += width
		}
	}
	return row
}

type workflowPage struct {
	Row   workflowRow
	Graph *view.Graph
	Jobs  []workflowJob
	More  int
	// Waits is its first job that waits for a worker, or else for a signal; nil where something of it runs.
	Waits *api.WorkflowJob
	// Cancel and Redrive say what is possible.
	Cancel, Redrive bool
}

// workflowJob is a job with what it waits for.
type workflowJob struct {
	api.WorkflowJob

	// WaitsFor are the refs of the jobs that a blocked job comes after and that have not ended, maxWaitsFor at most.
	WaitsFor []string
	// WaitsForMore is how many others there are.
	WaitsForMore int
}

func newWorkflowJob(of api.WorkflowJob) workflowJob {
	made := workflowJob{WorkflowJob: of}
	if of.State != api.StateBlocked {
		return made
	}
	for _, parent := range of.After {
		switch {
		case ended(parent.State):
		case len(made.WaitsFor) == maxWaitsFor:
			made.WaitsForMore++
		case parent.Ref != nil:
			made.WaitsFor = append(made.WaitsFor, *parent.Ref)
		default:
			made.WaitsFor = append(made.WaitsFor, parent.JobID) // of no workflow
		}
	}
	return made
}

func showWorkflow(v *visit.Visit) (visit.Page, error) {
	detail, err := v.API.GetWorkflow(v.Context(), v.Request.PathValue("id"))
	if err != nil {
		return visit.Page{}, err
	}
	page := workflowPage{Row: newWorkflowRow(detail.Workflow), Graph: view.NewGraph(detail.Jobs)}
	jobs := slices.Clone(detail.Jobs) // the graph keeps its own order
	page.Cancel = detail.State == api.WorkflowRunning && v.May(api.ScopeSubmit)
	page.Redrive = detail.Counts.DeadLetter > 0 && v.May(api.ScopeManage)
	slices.SortStableFunc(jobs, func(a, b api.WorkflowJob) int { return view.ByUrgency(a.State, b.State) })
	page.More = max(len(jobs)-jobsOfWorkflow, 0)
	for _, one := range jobs[:len(jobs)-page.More] {
		page.Jobs = append(page.Jobs, newWorkflowJob(one))
	}
	page.Waits = waitingFirst(&detail)
	title := detail.Name
	if title == "" {
		title = "Workflow"
	}
	return visit.Page{Template: "workflow", Title: title, Data: page}, nil
}

// waitingFirst is the first job that waits for a worker, or else for a signal, where nothing of the workflow runs; nil otherwise.
// Its page says why.
func waitingFirst(detail *api.WorkflowDetail) *api.WorkflowJob {
	if detail.Counts.Running > 0 {
		return nil
	}
	for _, state := range []string{api.StateQueued, api.StateWaiting} {
		if first := slices.IndexFunc(detail.Jobs, func(one api.WorkflowJob) bool { return one.State == state }); first >= 0 {
			return &detail.Jobs[first]
		}
	}
	return nil
}

func changeWorkflow(v *visit.Visit) (string, error) {
	id := v.Request.PathValue("id")
	here := "/console/workflows/" + url.PathEscape(id)
	switch v.Request.PostFormValue("do") {
	case "cancel":
		_, err := v.API.CancelWorkflow(v.Context(), id)
		return here + "?note=workflow-cancelled", err
	case "redrive":
		_, err := v.API.RedriveWorkflow(v.Context(), id)
		return here + "?note=workflow-redriven", err
	}
	return "", visit.ErrNoSuchAction
}
