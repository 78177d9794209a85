package workflows

import (
	"fmt"
	"strings"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// Bounds of a drawing. A larger graph is shown as its layers.
const (
	mostLanes = 14
	mostNodes = 60
	// mostLayers is how many layers are shown, from the first and from the last on.
	mostLayers = 40
	// mostFailed is how many jobs that failed are named where not every job is.
	mostFailed = 10
	// mostRefs is how many refs stand for the jobs of a layer.
	mostRefs = 3
	// widestCell bounds a column, in characters.
	widestCell = 48
)

// picture is a workflow's graph as text of lines of at most width characters.
func picture(workflow *api.WorkflowDetail, width int, paint func(cli.Colour, string) string) string {
	if len(workflow.Jobs) == 0 {
		return ""
	}
	g := newGraph(workflow.Jobs)
	rows, named := g.layerRows(), false
	if lines, lanes := drawing(g); lines != nil && lanes <= mostLanes {
		rows, named = g.nodeRows(lines), len(g.nodes) == len(workflow.Jobs)
	}
	text := layout(rows, width, paint)
	if failed := failedRows(workflow.Jobs); failed != nil && !named {
		text += "\n" + layout(failed, width, paint)
	}
	return text
}

// drawing is nil for a graph of too many nodes.
func drawing(g *graph) (lines []line, lanes int) {
	if len(g.nodes) > mostNodes {
		return nil, 0
	}
	return g.draw(func(n *node) string { return mark(n.worst()) })
}

// mark is the sign of a state.
func mark(state string) string {
	switch state {
	case api.StateCompleted:
		return "✓"
	case api.StateRunning:
		return "●"
	case api.StateDeadLetter:
		return "✗"
	case api.StateCancelled:
		return "⊘"
	case api.StateWaiting:
		return "◎"
	case api.StateBlocked:
		return "◌"
	}
	return "○" // queued, scheduled
}

func plain(text string) cli.Cell { return cli.Coloured(text, cli.Plain) }

func stateCell(state string) cli.Cell { return cli.Coloured(state, cli.StateColour(state)) }

// nodeRows put what is known of each node beside the drawing.
func (g *graph) nodeRows(lines []line) [][]cli.Cell {
	indent := 0
	for _, one := range lines {
		indent = max(indent, len([]rune(one.text)))
	}
	rows := [][]cli.Cell{{plain(strings.Repeat(" ", indent) + " REF"), plain("STATE"), plain("TOOK"), plain("TYPE"), plain("ID"), plain("IF ONE BEFORE FAILS")}}
	for _, one := range lines {
		if one.node == none {
			rows = append(rows, []cli.Cell{plain(one.text)})
			continue
		}
		n := &g.nodes[one.node]
		text := one.text + strings.Repeat(" ", indent-len([]rune(one.text))) + " "
		job := n.jobs[0]
		if len(n.jobs) > 1 {
			text += fmt.Sprintf("%s … %s", job.Ref, n.jobs[len(n.jobs)-1].Ref)
			rows = append(rows, []cli.Cell{
				plain(text), cli.Coloured(states(n.jobs), cli.StateColour(n.worst())), plain(""), plain(job.Type), plain(fmt.Sprintf("(%d jobs)", len(n.jobs))),
				plain(policies(job)),
			})
			continue
		}
		rows = append(rows, []cli.Cell{plain(text + job.Ref), stateCell(job.State), plain(took(job)), plain(job.Type), plain(job.ID), plain(policies(job))})
	}
	return rows
}

// policies are those that are not the default, such as "run (a, b)".
func policies(job *api.WorkflowJob) string {
	var texts []string
	for _, policy := range []string{api.OnFailedRun, api.OnFailedHold} {
		var refs []string
		for _, parent := range job.After {
			if parent.OnFailed == policy {
				refs = append(refs, cli.OrElse(parent.Ref, parent.JobID))
			}
		}
		if len(refs) > mostRefs {
			refs = append(refs[:mostRefs], "…")
		}
		if len(refs) > 0 {
			texts = append(texts, fmt.Sprintf("%s (%s)", policy, strings.Join(refs, ", ")))
		}
	}
	return strings.Join(texts, ", ")
}

// took is how long an ended job's last attempt took.
func took(job *api.WorkflowJob) string {
	if job.StartedAt == nil || job.FinishedAt == nil {
		return ""
	}
	d := job.FinishedAt.Sub(job.StartedAt.Time)
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second / 10).String()
}

// states counts jobs by state, such as "90 completed, 10 running".
func states(jobs []*api.WorkflowJob) string {
	count := map[string]int{}
	for _, job := range jobs {
		count[job.State]++
	}
	return counted(func(state string) int { return count[state] })
}

// counted tells the counts that are not zero.
func counted(of func(state string) int) string {
	var texts []string
	for _, state := range []string{
		api.StateCompleted, api.StateRunning, api.StateQueued, api.StateWaiting, api.StateScheduled, api.StateBlocked, api.StateDeadLetter, api.StateCancelled,
	} {
		if n := of(state); n > 0 {
			texts = append(texts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(texts, ", ")
}

// countsOf gives the counts of a workflow by state.
func countsOf(c api.WorkflowCounts) func(state string) int {
	all := map[string]int{
		api.StateCompleted: c.Completed, api.StateRunning: c.Running, api.StateQueued: c.Queued, api.StateScheduled: c.Scheduled,
		api.StateWaiting: c.Waiting, api.StateBlocked: c.Blocked, api.StateDeadLetter: c.DeadLetter, api.StateCancelled: c.Cancelled,
	}
	return func(state string) int { return all[state] }
}

// layerRows summarise each layer in a line.
func (g *graph) layerRows() [][]cli.Cell {
	var layers []node
	for i := range g.nodes {
		one := &g.nodes[i]
		if one.layer == len(layers) {
			layers = append(layers, node{layer: one.layer})
		}
		layers[one.layer].jobs = append(layers[one.layer].jobs, one.jobs...)
	}
	rows := [][]cli.Cell{{plain("LAYER"), plain("JOBS"), plain("STATES"), plain("REFS")}}
	for i := range layers {
		one := &layers[i]
		if hidden := len(layers) - mostLayers; hidden > 0 && i >= mostLayers/2 && i < mostLayers/2+hidden {
			if i == mostLayers/2 {
				var within []*api.WorkflowJob
				for _, other := range layers[i : i+hidden] {
					within = append(within, other.jobs...)
				}
				rows = append(rows, []cli.Cell{plain(fmt.Sprintf("%d to %d", i+1, i+hidden)), plain(fmt.Sprint(len(within))), plain(states(within)), plain("…")})
			}
			continue
		}
		rows = append(rows, []cli.Cell{
			plain(fmt.Sprint(i + 1)), plain(fmt.Sprint(len(one.jobs))), cli.Coloured(states(one.jobs), cli.StateColour(one.worst())), plain(refs(one.jobs)),
		})
	}
	return rows
}

// refs names some of the jobs.
func refs(jobs []*api.WorkflowJob) string {
	var names []string
	for _, job := range jobs[:min(len(jobs), mostRefs)] {
		names = append(names, job.Ref)
	}
	if more := len(jobs) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("… %d more", more))
	}
	return strings.Join(names, ", ")
}

// failedRows name the dead letters, for a picture in which not every job is named.
func failedRows(jobs []api.WorkflowJob) [][]cli.Cell {
	var rows [][]cli.Cell
	count := 0
	for i := range jobs {
		if jobs[i].State != api.StateDeadLetter {
			continue
		}
		if count++; count <= mostFailed {
			rows = append(rows, []cli.Cell{plain("  " + jobs[i].Ref), stateCell(jobs[i].State), plain(took(&jobs[i])), plain(jobs[i].Type), plain(jobs[i].ID)})
		}
	}
	if count == 0 {
		return nil
	}
	if count > mostFailed {
		rows = append(rows, []cli.Cell{plain(fmt.Sprintf("  … %d more", count-mostFailed))})
	}
	return append([][]cli.Cell{{plain("FAILED")}}, rows...)
}
