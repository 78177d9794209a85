package view_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// flow makes jobs of lines such as "c running: a b".
func flow(lines ...string) []api.WorkflowJob {
	var jobs []api.WorkflowJob
	for _, line := range lines {
		head, after, _ := strings.Cut(line, ":")
		ref, state, _ := strings.Cut(head, " ")
		job := api.WorkflowJob{Ref: ref, ID: ref, Type: "t", State: state}
		for parent := range strings.FieldsSeq(after) {
			job.After = append(job.After, api.JobDependency{JobID: parent})
		}
		jobs = append(jobs, job)
	}
	return jobs
}

func TestAGraphHasLayers(t *testing.T) {
	t.Parallel()
	g := view.NewGraph(flow("d queued: b c", "a completed", "b completed: a", "c running: a", "e blocked: d a gone"))
	x := map[string]int{}
	for _, n := range g.Nodes {
		x[n.Label()] = n.X
		if n.X < 0 || n.Y < 0 || n.X+176 > g.Width || n.Y+48 > g.Height {
			t.Errorf("%s lies outside: %+v", n.Label(), n)
		}
	}
	if x["a"] >= x["b"] || x["b"] != x["c"] || x["c"] >= x["d"] || x["d"] >= x["e"] {
		t.Error(x)
	}
	if len(g.Edges) != 6 {
		t.Errorf("%d edges", len(g.Edges))
	}
}

// Nodes must not lie on each other, nor edges cross where they need not.
func TestAGraphIsInOrder(t *testing.T) {
	t.Parallel()
	g := view.NewGraph(flow("a queued", "b queued", "c queued", "z queued: c", "y queued: b", "x queued: a"))
	y := map[string]int{}
	taken := map[[2]int]bool{}
	for _, n := range g.Nodes {
		y[n.Label()] = n.Y
		if taken[[2]int{n.X, n.Y}] {
			t.Errorf("%s lies on another", n.Label())
		}
		taken[[2]int{n.X, n.Y}] = true
	}
	if y["x"] != y["a"] || y["y"] != y["b"] || y["z"] != y["c"] {
		t.Error(y)
	}
}

func TestTwinsAreOneNode(t *testing.T) {
	t.Parallel()
	lines := []string{"first completed"}
	for i := range 50 {
		lines = append(lines, fmt.Sprintf("part-%d %s: first", i, map[bool]string{true: "dead_letter", false: "completed"}[i == 30]))
	}
	g := view.NewGraph(flow(lines...))
	if len(g.Nodes) != 2 || g.Nodes[1].Label() != "50 × t" || g.Nodes[1].Job.Ref != "part-30" {
		t.Errorf("%+v", g.Nodes)
	}
	var many []string
	for i := range 400 {
		many = append(many, fmt.Sprintf("n%d queued: n%d", i, i-1))
	}
	if g := view.NewGraph(flow(many...)); g != nil {
		t.Errorf("%d nodes are drawn", len(g.Nodes))
	}
	if view.NewGraph(nil) != nil {
		t.Error("nothing is drawn")
	}
}
