package workflows

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// graph is what is drawn of a workflow's jobs.
type graph struct {
	// nodes stand in the order of their layers: each after all of its parents.
	nodes []node
}

// node is a job, or many that have the same type, parents and children.
type node struct {
	jobs []*api.WorkflowJob
	// parents and children are places in graph.nodes.
	parents, children []int
	// layer is the longest way from a job that comes after none, in edges.
	layer int
}

// fewTwins is how many jobs of the same type, parents and children are drawn each by itself.
const fewTwins = 8

// newGraph puts jobs in the order in which they can run. Parents that are not kept are left out.
func newGraph(jobs []api.WorkflowJob) *graph {
	places := make(map[string]int, len(jobs))
	for i := range jobs {
		places[jobs[i].ID] = i
	}
	parents, children := make([][]int, len(jobs)), make([][]int, len(jobs))
	for i := range jobs {
		for _, one := range jobs[i].After {
			if at, kept := places[one.JobID]; kept && at != i {
				parents[i], children[at] = append(parents[i], at), append(children[at], i)
			}
		}
		slices.Sort(parents[i])
	}
	layers := layersOf(parents, children)
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(layers[a], layers[b]) })
	return collapse(jobs, order, parents, children, layers)
}

// layersOf is the longest way to each job from one that has no parents.
func layersOf(parents, children [][]int) []int {
	layers, open := make([]int, len(parents)), make([]int, len(parents))
	var ready []int
	for i := range parents {
		if open[i] = len(parents[i]); open[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		at := ready[0]
		ready = ready[1:]
		for _, child := range children[at] {
			layers[child] = max(layers[child], layers[at]+1)
			if open[child]--; open[child] == 0 {
				ready = append(ready, child)
			}
		}
	}
	return layers
}

// collapse makes the nodes: many twins become one.
func collapse(jobs []api.WorkflowJob, order []int, parents, children [][]int, layers []int) *graph {
	keys, count := make([]string, len(jobs)), map[string]int{}
	for _, i := range order {
		policies := make([]string, len(jobs[i].After))
		for n, one := range jobs[i].After {
			policies[n] = one.JobID + one.OnFailed
		}
		slices.Sort(policies)
		keys[i] = fmt.Sprint(jobs[i].Type, parents[i], children[i], policies)
		count[keys[i]]++
	}
	g, nodeOf, twins := &graph{}, make([]int, len(jobs)), map[string]int{}
	for _, i := range order {
		at, seen := twins[keys[i]]
		if !seen || count[keys[i]] <= fewTwins {
			at = len(g.nodes)
			twins[keys[i]] = at
			g.nodes = append(g.nodes, node{layer: layers[i]})
		}
		nodeOf[i] = at
		g.nodes[at].jobs = append(g.nodes[at].jobs, &jobs[i])
	}
	for _, i := range order {
		one := &g.nodes[nodeOf[i]]
		if one.jobs[0] != &jobs[i] {
			continue // its twin has said it
		}
		one.parents, one.children = nodesOf(parents[i], nodeOf), nodesOf(children[i], nodeOf)
	}
	return g
}

// nodesOf are the nodes of jobs, each once.
func nodesOf(jobs, nodeOf []int) []int {
	all := make([]int, len(jobs))
	for n, i := range jobs {
		all[n] = nodeOf[i]
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// worst is the state that a person should know of first.
func (n *node) worst() string {
	order := []string{
		api.StateDeadLetter, api.StateCancelled, api.StateRunning, api.StateQueued, api.StateWaiting, api.StateScheduled, api.StateBlocked, api.StateCompleted,
	}
	at := len(order)
	for _, job := range n.jobs {
		if i := slices.Index(order, job.State); i >= 0 {
			at = min(at, i)
		}
	}
	if at == len(order) {
		return n.jobs[0].State
	}
	return order[at]
}
