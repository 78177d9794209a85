package cli

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Table is text in columns.
type Table struct {
	w       *tabwriter.Writer
	colours bool
}

// Row writes a line of cells; an empty one is shown as "-". Cells hold text of other users, so control characters
// are removed: it must not control the terminal.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = t.text(cell)
	}
	fmt.Fprintln(t.w, strings.Join(texts, "\t"))
}

func (t *Table) text(cell any) string {
	if c, ok := cell.(Cell); ok {
		return paint(t.colours, c.colour, Visible(c.text))
	}
	text := Visible(fmt.Sprint(cell))
	if text == "" {
		return "-"
	}
	return text
}

// Below writes a line under the last row, from the third column on.
func (t *Table) Below(text string) {
	fmt.Fprintf(t.w, "%s\t\t%s\n", paint(t.colours, Plain, ""), Visible(text))
}

// Pair writes a line of a description; one without a value is left out.
func (t *Table) Pair(name, value string) {
	if value != "" {
		fmt.Fprintf(t.w, "%s\t%s\n", name, Visible(value))
	}
}

// Colour is the number of an ANSI colour. All have two digits, so that the escape codes of all cells of a column
// have the same length and the column stays aligned.
type Colour int

// The colours. Plain is the terminal's own.
const (
	Plain  Colour = 39
	Red    Colour = 31
	Green  Colour = 32
	Yellow Colour = 33
	Blue   Colour = 34
)

// StateColour is the colour of a state of a job or a workflow.
func StateColour(state string) Colour {
	switch state {
	case api.StateCompleted:
		return Green
	case api.StateRunning:
		return Blue
	case api.StateDeadLetter, api.WorkflowFailed:
		return Red
	case api.StateScheduled, api.StateBlocked:
		return Yellow
	}
	return Plain
}

// Cell is text in a colour, for a column whose cells all have one.
type Cell struct {
	text   string
	colour Colour
}

// Coloured is a cell for [Table.Row].
func Coloured(text string, c Colour) Cell { return Cell{text, c} }

// Text is the cell's text.
func (c Cell) Text() string { return c.text }

// Colour is the cell's colour.
func (c Cell) Colour() Colour { return c.colour }

func paint(colours bool, c Colour, text string) string {
	if !colours {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(c), text)
}
