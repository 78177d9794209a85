package view

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Sizes of a graph's drawing.
const (
	nodeWidth  = 176
	nodeHeight = 48
	gapX       = 56
	gapY       = 14
	margin     = 8

	// fewTwins is how many jobs of the same type, parents and children are drawn each by itself.
	fewTwins = 8
	// mostDrawn bounds a drawing, in nodes.
	mostDrawn = 300
	// sweeps is how often the layers are ordered by their neighbours.
	sweeps = 4
)

// Graph is a workflow drawn in layers, from left to right.
type Graph struct {
	Width, Height int
	Nodes         []GraphNode
	Edges         []GraphEdge
}

// GraphNode is a job, or many twins: jobs of the same type, parents and children.
type GraphNode struct {
	X, Y int
	// Job is the job, or the one of the twins that needs a look first.
	Job *api.WorkflowJob
	// Count is how many jobs it stands for.
	Count int
}

// Label is what the node is called.
func (n *GraphNode) Label() string {
	if n.Count > 1 {
		return fmt.Sprintf("%d × %s", n.Count, n.Job.Type)
	}
	return n.Job.Ref
}

// GraphEdge is a curve from a job to one that comes after it.
type GraphEdge struct {
	Path string
	// State is that of the job that it comes from.
	State string
}

// node is a node before it has a place.
type node struct {
	jobs              []*api.WorkflowJob
	parents, children []int
	layer             int
	order             float64
}

// NewGraph lays out a workflow's jobs; nil where there are too many to look at, or none.
func NewGraph(jobs []api.WorkflowJob) *Graph {
	nodes := collapse(jobs)
	if len(nodes) == 0 || len(nodes) > mostDrawn {
		return nil
	}
	return place(nodes, orderLayers(nodes))
}

// related is by place: which jobs each comes after, and before. What is no longer kept is left out.
func related(jobs []api.WorkflowJob) (parents, children [][]int) {
	places := make(map[string]int, len(jobs))
	for i := range jobs {
		places[jobs[i].ID] = i
	}
	parents, children = make([][]int, len(jobs)), make([][]int, len(jobs))
	for i := range jobs {
		for _, one := range jobs[i].After {
			if at, kept := places[one.JobID]; kept && at != i {
				parents[i], children[at] = append(parents[i], at), append(children[at], i)
			}
		}
		slices.Sort(parents[i])
	}
	return parents, children
}

// collapse makes one node of many twins.
func collapse(jobs []api.WorkflowJob) []*node {
	parents, children := related(jobs)
	keys, count := make([]string, len(jobs)), map[string]int{}
	for i := range jobs {
		keys[i] = fmt.Sprint(jobs[i].Type, parents[i], children[i])
		count[keys[i]]++
	}
	var nodes []*node
	nodeOf, twins := make([]int, len(jobs)), map[string]int{}
	for i := range jobs {
		at, seen := twins[keys[i]]
		if !seen || count[keys[i]] <= fewTwins {
			at = len(nodes)
			twins[keys[i]] = at
			nodes = append(nodes, &node{})
		}
		nodeOf[i] = at
		nodes[at].jobs = append(nodes[at].jobs, &jobs[i])
	}
	for i := range jobs {
		for _, parent := range parents[i] {
			from, to := nodeOf[parent], nodeOf[i]
			if !slices.Contains(nodes[to].parents, from) {
				nodes[to].parents, nodes[from].children = append(nodes[to].parents, from), append(nodes[from].children, to)
			}
		}
	}
	return nodes
}

// orderLayers gives each node its layer, the longest way from a node without parents, and orders each layer so that
// edges cross little: by the mean place of the neighbours, from left and from right in turn.
func orderLayers(nodes []*node) [][]*node {
	open, ready := make([]int, len(nodes)), []int{}
	for i, n := range nodes {
		if open[i] = len(n.parents); open[i] == 0 {
			ready = append(ready, i)
		}
	}
	most := 0
	for len(ready) > 0 {
		at := ready[0]
		ready = ready[1:]
		for _, child := range nodes[at].children {
			nodes[child].layer = max(nodes[child].layer, nodes[at].layer+1)
			most = max(most, nodes[child].layer)
			if open[child]--; open[child] == 0 {
				ready = append(ready, child)
			}
		}
	}
	layers := make([][]*node, most+1)
	for _, n := range nodes {
		n.order = float64(len(layers[n.layer]))
		layers[n.layer] = append(layers[n.layer], n)
	}
	for sweep := range sweeps {
		for i := range layers {
			at, neighbours := i, func(n *node) []int { return n.parents }
			if sweep%2 == 1 {
				at, neighbours = len(layers)-1-i, func(n *node) []int { return n.children }
			}
			orderLayer(layers[at], nodes, neighbours)
		}
	}
	return layers
}

func orderLayer(layer, nodes []*node, neighbours func(*node) []int) {
	means := make(map[*node]float64, len(layer))
	for _, n := range layer {
		means[n] = n.order
		if of := neighbours(n); len(of) > 0 {
			sum := 0.0
			for _, one := range of {
				sum += nodes[one].order
			}
			means[n] = sum / float64(len(of))
		}
	}
	slices.SortStableFunc(layer, func(a, b *node) int { return cmp.Compare(means[a], means[b]) })
	for i, n := range layer { // from the middle, so that layers of different sizes compare
		n.order = float64(i) - float64(len(layer)-1)/2
	}
}

// place gives the nodes their places, each layer in the middle, and draws the edges.
func place(nodes []*node, layers [][]*node) *Graph {
	tallest := 0
	for _, layer := range layers {
		tallest = max(tallest, len(layer))
	}
	g := &Graph{
		Width:  2*margin + len(layers)*nodeWidth + (len(layers)-1)*gapX,
		Height: 2*margin + tallest*nodeHeight + (tallest-1)*gapY,
	}
	at := map[*node]GraphNode{}
	for l, layer := range layers {
		top := (g.Height - len(layer)*nodeHeight - (len(layer)-1)*gapY) / 2
		for i, n := range layer {
			drawn := GraphNode{X: margin + l*(nodeWidth+gapX), Y: top + i*(nodeHeight+gapY), Job: n.worst(), Count: len(n.jobs)}
			at[n] = drawn
			g.Nodes = append(g.Nodes, drawn)
		}
	}
	for _, n := range nodes {
		from := at[n]
		for _, child := range n.children {
			to := at[nodes[child]]
			x1, y1, x2, y2 := from.X+nodeWidth, from.Y+nodeHeight/2, to.X, to.Y+nodeHeight/2
			bend := min((x2-x1)/2, 80)
			g.Edges = append(g.Edges, GraphEdge{fmt.Sprintf("M%d %dC%d %d %d %d %d %d", x1, y1, x1+bend, y1, x2-bend, y2, x2, y2), from.Job.State})
		}
	}
	return g
}

// urgency is the order in which people look at states.
var urgency = []string{
	api.StateDeadLetter, api.StateCancelled, api.StateRunning, api.StateQueued, api.StateWaiting, api.StateScheduled, api.StateBlocked, api.StateCompleted,
}

// worst is the job that a person should know of first.
func (n *node) worst() *api.WorkflowJob {
	return slices.MinFunc(n.jobs, func(a, b *api.WorkflowJob) int { return ByUrgency(a.State, b.State) })
}

// ByUrgency compares states by how soon they need a look.
func ByUrgency(a, b string) int {
	return cmp.Compare(slices.Index(urgency, a), slices.Index(urgency, b))
}
