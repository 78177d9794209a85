package console

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// jobsOfWorkflow is how many jobs the list beside a graph has.
const jobsOfWorkflow = 200

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
}

func listWorkflows(v *visit) (shown, error) {
	query, given := v.pageQuery(50), v.r.URL.Query()
	state, name := given.Get("state"), given.Get("name")
	page := workflowsPage{Name: name, Deep: v.deep(), Filtered: state != "" || name != ""}
	for _, one := range api.WorkflowStates() {
		page.States = append(page.States, stateChoice{one, one == state})
	}
	if state != "" {
		query.Set("state", state)
	}
	if name != "" {
		query.Set("name", name)
	}
	workflows, err := list[api.Workflow](v.client, "/v1/workflows", query)
	if err != nil {
		return shown{}, err
	}
	for _, one := range workflows.Items {
		page.Items = append(page.Items, newWorkflowRow(one))
	}
	page.Older = v.older(workflows.NextPageToken)
	return shown{template: "workflows", title: "Workflows", data: page}, nil
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
			x += width
		}
	}
	return row
}

type workflowPage struct {
	Row   workflowRow
	Graph *view.Graph
	Jobs  []api.WorkflowJob
	More  int
	// Cancel and Redrive say what is possible.
	Cancel, Redrive bool
}

func showWorkflow(v *visit) (shown, error) {
	detail, err := get[api.WorkflowDetail](v.client, resource("workflows", v.r.PathValue("id")), nil)
	if err != nil {
		return shown{}, err
	}
	page := workflowPage{Row: newWorkflowRow(detail.Workflow), Graph: view.NewGraph(detail.Jobs), Jobs: slices.Clone(detail.Jobs)} // the graph keeps its own order
	page.Cancel = detail.State == api.WorkflowRunning && v.may(api.ScopeSubmit)
	page.Redrive = detail.Counts.DeadLetter > 0 && v.may(api.ScopeManage)
	slices.SortStableFunc(page.Jobs, func(a, b api.WorkflowJob) int { return view.ByUrgency(a.State, b.State) })
	if more := len(page.Jobs) - jobsOfWorkflow; more > 0 {
		page.Jobs, page.More = page.Jobs[:jobsOfWorkflow], more
	}
	title := detail.Name
	if title == "" {
		title = "Workflow"
	}
	return shown{template: "workflow", title: title, data: page}, nil
}

func changeWorkflow(v *visit) (string, error) {
	id := v.r.PathValue("id")
	here, at := "/console/workflows/"+url.PathEscape(id), resource("workflows", id)
	switch v.r.PostFormValue("do") {
	case "cancel":
		return here + "?note=workflow-cancelled", v.call(http.MethodPost, at+"/cancel", nil, nil, nil)
	case "redrive":
		return here + "?note=workflow-redriven", v.call(http.MethodPost, at+"/redrive", nil, nil, nil)
	}
	return "", errNoSuchAction
}
