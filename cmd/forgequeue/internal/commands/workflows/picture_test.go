package workflows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// drawn makes a workflow of lines such as "c running a b:run" (ref, state, parents) and draws it without colours.
func drawn(width int, lines ...string) string {
	workflow := &api.WorkflowDetail{}
	for _, text := range lines {
		words := strings.Fields(text)
		one := api.WorkflowJob{Ref: words[0], ID: "id-" + words[0], Type: "t", State: words[1]}
		for _, word := range words[2:] {
			ref, policy, _ := strings.Cut(word, ":")
			if policy == "" {
				policy = api.OnFailedCancel
			}
			one.After = append(one.After, api.JobDependency{JobID: "id-" + ref, Ref: &ref, OnFailed: policy})
		}
		workflow.Jobs = append(workflow.Jobs, one)
	}
	return picture(workflow, width, func(_ cli.Colour, text string) string { return text })
}

// shapes is the drawing with the refs alone.
func shapes(lines ...string) string {
	var b strings.Builder
	header, rest, _ := strings.Cut(drawn(200, lines...), "\n")
	from := strings.Index(header, "REF")
	for text := range strings.Lines(rest) {
		row := []rune(strings.TrimRight(text, "\n"))
		graph := row[:min(from, len(row))]
		ref, _, _ := strings.Cut(string(row[len(graph):]), " ")
		b.WriteString(strings.TrimRight(string(graph)+ref, " ") + "\n")
	}
	return b.String()
}

func compare(t *testing.T, name, got, want string) {
	t.Helper()
	if want = strings.TrimPrefix(want, "\n"); got != want {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

func TestPictureOfADiamond(t *testing.T) {
	t.Parallel()
	compare(t, "diamond", drawn(120, "extract completed", "sums running extract", "chart queued extract", "send blocked sums chart:run"), `
    REF      STATE      TOOK  TYPE  ID          IF ONE BEFORE FAILS
✓   extract  completed        t     id-extract
├─┐
● │ sums     running          t     id-sums
│ ○ chart    queued           t     id-chart
├─┘
◌   send     blocked          t     id-send     run (chart)
`)
}

func TestPicturesOfOtherShapes(t *testing.T) {
	t.Parallel()
	compare(t, "a chain", shapes("a completed", "b running a", "c blocked b"), `
✓ a
● b
◌ c
`)
	compare(t, "an approval", shapes("a waiting", "b blocked a"), `
◎ a
◌ b
`)
	// Below each other without an edge: a line between them says so.
	compare(t, "no edges", shapes("a completed", "b dead_letter", "c cancelled"), `
✓ a

✗ b

⊘ c
`)
	compare(t, "a skip, and three roots into one", shapes("a completed", "b completed", "c queued", "d blocked a b c", "e blocked d a"), `
✓     a
├─┐
│ │ ✓ b
├─│─┘
│ │ ○ c
├─│─┘
◌ │   d
└─┤
  ◌   e
`)
	compare(t, "two joins that cross", shapes("a completed", "b completed", "c blocked a b", "d blocked a b"), `
✓     a
├─┐
│ │ ✓ b
├─┼─┘
◌ │   c
  ◌   d
`)
}

func TestPictureOfManyTwins(t *testing.T) {
	t.Parallel()
	lines := []string{"split completed"}
	join := "join blocked"
	for i := range 100 {
		state := "completed"
		if i >= 90 {
			state = "running"
		}
		if i == 50 {
			state = "dead_letter"
		}
		lines = append(lines, fmt.Sprintf("part-%d %s split", i, state))
		join += fmt.Sprintf(" part-%d:hold", i)
	}
	compare(t, "twins", drawn(200, append(lines, join)...), `
  REF               STATE                                    TOOK  TYPE  ID          IF ONE BEFORE FAILS
✓ split             completed                                      t     id-split
✗ part-0 … part-99  89 completed, 10 running, 1 dead_letter        t     (100 jobs)
◌ join              blocked                                        t     id-join     hold (part-0, part-1, part-2, …)

FAILED
  part-50  dead_letter    t  id-part-50
`)
}

// A workflow of 1,000 jobs of any shape is some lines, none of them long.
func TestPicturesAreBounded(t *testing.T) {
	t.Parallel()
	var chain, pairs, grid []string
	for i := range 1000 {
		text := fmt.Sprintf("c%d completed", i)
		if i > 0 {
			text += fmt.Sprintf(" c%d", i-1)
		}
		chain = append(chain, text)
		if i < 500 {
			pairs = append(pairs, fmt.Sprintf("p%d dead_letter", i), fmt.Sprintf("q%d cancelled p%d", i, i))
		}
		text = fmt.Sprintf("g%d-%s blocked", i, strings.Repeat("x", 100))
		for k := max(0, i-100); k < i && i >= 50; k += 10 {
			text += fmt.Sprintf(" g%d-%s:run", k, strings.Repeat("x", 100))
		}
		grid = append(grid, text)
	}
	for name, lines := range map[string][]string{"chain": chain, "pairs": pairs, "grid": grid} {
		start := time.Now()
		got := drawn(100, lines...)
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		count := 0
		for line := range strings.Lines(got) {
			count++
			if n := len([]rune(line)); n > 101 {
				t.Errorf("%s: a line of %d characters", name, n)
			}
		}
		if count < 4 || count > 80 {
			t.Errorf("%s: %d lines\n%s", name, count, got)
		}
	}
	compare(t, "pairs", drawn(100, pairs[:30]...), `
LAYER  JOBS  STATES          REFS
1      15    15 dead_letter  p0, p1, p2, … 12 more
2      15    15 cancelled    q0, q1, q2, … 12 more

FAILED
  p0  dead_letter    t  id-p0
  p1  dead_letter    t  id-p1
  p2  dead_letter    t  id-p2
  p3  dead_letter    t  id-p3
  p4  dead_letter    t  id-p4
  p5  dead_letter    t  id-p5
  p6  dead_letter    t  id-p6
  p7  dead_letter    t  id-p7
  p8  dead_letter    t  id-p8
  p9  dead_letter    t  id-p9
  … 5 more
`)
}

// A parent that is no longer kept is not drawn, and a graph that could not be is still shown.
func TestPictureOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	compare(t, "a parent is gone", shapes("b completed a", "c completed b"), "✓ b\n✓ c\n")
	if got := drawn(100); got != "" {
		t.Errorf("no jobs: %q", got)
	}
	if got := drawn(100, "a queued b", "b queued a"); !strings.Contains(got, "a") || !strings.Contains(got, "b") {
		t.Errorf("a circle: %q", got)
	}
}

// Colours do not shift the columns.
func TestPictureInColour(t *testing.T) {
	t.Parallel()
	ref := "a"
	workflow := &api.WorkflowDetail{Jobs: []api.WorkflowJob{
		{Ref: "a", ID: "1", Type: "t", State: api.StateDeadLetter},
		{Ref: "b", ID: "2", Type: "t", State: api.StateCancelled, After: []api.JobDependency{{JobID: "1", Ref: &ref}}},
	}}
	coloured := picture(workflow, 100, func(c cli.Colour, text string) string {
		if c == cli.Plain {
			return text
		}
		return "<" + text + ">"
	})
	if !strings.Contains(coloured, "✗ a    <dead_letter>        t     1") {
		t.Errorf("%s", coloured)
	}
}
