package workflows

import (
	"slices"
	"strings"
)

// Lanes draw a graph downwards, as git log --graph does: a line for each node, and a line between two where edges
// branch or join. A lane is a column that leads to one node. Edges to the same node share its lane.
type lanes struct {
	// leads says to which node each lane leads; none is free.
	leads []int
	// widest is how many lanes there were at once.
	widest int
	// last is the lane of the node that was drawn last and has no children, else none.
	last int
}

const none = -1

// line is one line of a drawing. node is none between two nodes.
type line struct {
	text string
	node int
}

// draw is the whole drawing; mark is the sign of a node. width is in lanes.
func (g *graph) draw(mark func(n *node) string) (drawn []line, width int) {
	l := &lanes{last: none}
	for i := range g.nodes {
		at := slices.Index(l.leads, i)
		if at < 0 {
			at = l.free(0)
			if at == l.last { // two nodes below each other would look as if they had an edge
				drawn = append(drawn, line{l.row(none, ""), none})
			}
		}
		l.leads[at] = i
		drawn = append(drawn, line{l.row(at, mark(&g.nodes[i])), i})
		l.leads[at], l.last = none, none
		if len(g.nodes[i].children) == 0 {
			l.last = at
		} else if joint := l.branch(at, g.nodes[i].children); joint != "" {
			drawn = append(drawn, line{joint, none})
		}
		for len(l.leads) > 0 && l.leads[len(l.leads)-1] == none {
			l.leads = l.leads[:len(l.leads)-1]
		}
	}
	return drawn, l.widest
}

// free is the first lane from a place on that leads nowhere.
func (l *lanes) free(from int) int {
	for i := from; i < len(l.leads); i++ {
		if l.leads[i] == none {
			return i
		}
	}
	l.leads = append(l.leads, none)
	l.widest = max(l.widest, len(l.leads))
	return len(l.leads) - 1
}

// row has a mark in one lane, and a line in each other that leads somewhere.
func (l *lanes) row(at int, mark string) string {
	var b strings.Builder
	for i, leads := range l.leads {
		switch {
		case i == at:
			b.WriteString(mark)
		case leads != none:
			b.WriteString("│")
		default:
			b.WriteString(" ")
		}
		b.WriteString(" ")
	}
	return strings.TrimRight(b.String(), " ")
}

// Directions in which a line leaves a place.
const (
	up = 1 << iota
	down
	left
	right
)

// joints are the signs for sets of directions.
var joints = [16]string{
	up | down: "│", left | right: "─", up | left: "┘", up | right: "└", down | left: "┐", down | right: "┌",
	up | down | right: "├", up | down | left: "┤", down | left | right: "┬", up | left | right: "┴", up | down | left | right: "┼",
	0: " ", up: "│", down: "│", left: "─", right: "─",
}

// branch leads the lane of a node on to its children, and is the line that shows it; empty where the lane just goes on.
func (l *lanes) branch(at int, children []int) string {
	ends := map[int]int{} // how the line enters each lane
	for _, child := range children {
		to := slices.Index(l.leads, child)
		switch {
		case to >= 0:
			ends[to] = up | down
		case l.leads[at] == none:
			l.leads[at] = child
		default:
			to = l.free(at + 1)
			l.leads[to] = child
			ends[to] = down
		}
	}
	if len(ends) == 0 {
		return ""
	}
	first, last := at, at
	for to := range ends {
		first, last = min(first, to), max(last, to)
	}
	var b strings.Builder
	for i, leads := range l.leads {
		way := ends[i]
		if i == at {
			way = up
			if leads != none {
				way |= down
			}
		}
		within := i >= first && i <= last
		switch {
		case way != 0:
			if i > first {
				way |= left
			}
			if i < last {
				way |= right
			}
		case leads != none:
			way = up | down // it passes below, without a joint
		case within:
			way = left | right
		}
		b.WriteString(joints[way])
		if i >= first && i < last {
			b.WriteString("─")
		} else {
			b.WriteString(" ")
		}
	}
	return strings.TrimRight(b.String(), " ")
}
