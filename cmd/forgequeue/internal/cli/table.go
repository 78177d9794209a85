package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/forgequeue/forgequeue/shared/api"
)

// Table is text in columns. On a terminal it is fitted to the width, columns without a value are left out, and times
// are relative. Elsewhere it has all columns, in full, so that programs can rely on them.
type Table struct {
	look
	to   io.Writer
	head []Column
	rows [][]string
	// hidden are the headings of the columns that the width had no room for.
	hidden []string
	err    error
}

// look is how a table is shown.
type look struct {
	colours bool
	// width is the terminal's, in characters; 0 where there is none.
	width int
	now   time.Time
}

// Column is a heading of a table, and what becomes of its column if the terminal is too narrow.
type Column struct {
	name string
	fit  fit
}

type fit int

const (
	whole   fit = iota // shown in any case, in full
	elastic            // shortened
	minor              // left out
	least              // left out first
)

// Long is the heading of a column of long texts, which are shortened where the width has no room.
func Long(name string) Column { return Column{name, elastic} }

// Minor is the heading of a column that is left out where the width has no room.
func Minor(name string) Column { return Column{name, minor} }

// Least is the heading of a column that is left out before those of [Minor].
func Least(name string) Column { return Column{name, least} }

// Head begins a table of columns, below the one before; each is a [Column], or the name of one that is always shown in full.
func (t *Table) Head(columns ...any) {
	if len(t.head) > 0 {
		t.flush()
		_, _ = io.WriteString(t.to, "\n") // a failure is that of the next one
	}
	for _, column := range columns {
		c, ok := column.(Column)
		if !ok {
			c = Column{name: fmt.Sprint(column)}
		}
		t.head = append(t.head, c)
	}
}

// Row writes a line of cells; an empty one is shown as "-". Cells hold text of other users, so control characters
// are removed: it must not control the terminal.
func (t *Table) Row(cells ...any) {
	texts := make([]string, len(cells))
	for i, cell := range cells {
		texts[i] = t.text(cell)
	}
	t.rows = append(t.rows, texts)
}

const noValue = "-"

func (t *Table) text(cell any) string {
	var plain string
	switch c := cell.(type) {
	case Cell:
		return paint(t.colours, c.colour, Visible(c.text))
	case api.Time:
		plain = t.time(&c)
	case *api.Time:
		plain = t.time(c)
	default:
		plain = fmt.Sprint(cell)
	}
	if plain = Visible(plain); plain == "" {
		return noValue
	}
	return plain
}

// time is an instant in a column: relative on a terminal.
func (t *Table) time(at *api.Time) string {
	if t.width == 0 || at == nil {
		return Stamp(at)
	}
	return relative(at.Time, t.now)
}

// Below writes a line under the last row, from the third column on.
func (t *Table) Below(line string) { t.rows = append(t.rows, []string{"", "", Visible(line)}) }

// Pair writes a line of a description; one without a value is left out. Times stand in full, on a terminal also
// relative.
func (t *Table) Pair(name string, value any) {
	var at *api.Time
	switch v := value.(type) {
	case api.Time:
		at = &v
	case *api.Time:
		at = v
	case Cell:
		t.rows = append(t.rows, []string{name, t.text(v)})
		return
	default:
		if plain := Visible(fmt.Sprint(v)); plain != "" {
			t.rows = append(t.rows, []string{name, plain})
		}
		return
	}
	if at == nil {
		return
	}
	stamp := Stamp(at)
	if t.width > 0 {
		stamp += " (" + relative(at.Time, t.now) + ")"
	}
	t.rows = append(t.rows, []string{name, stamp})
}

// flush writes what there is.
func (t *Table) flush() {
	if len(t.head) == 0 && len(t.rows) == 0 {
		return
	}
	lines := t.rows
	if len(t.head) > 0 {
		lines = t.fitted()
	}
	w := table.NewWriter()
	w.SetStyle(table.Style{Box: table.BoxStyle{PaddingRight: gap}, Options: table.OptionsNoBordersAndSeparators})
	w.SuppressTrailingSpaces()
	for _, line := range lines {
		row := make(table.Row, len(line))
		for i := range line {
			row[i] = line[i]
		}
		w.AppendRow(row)
	}
	if _, err := io.WriteString(t.to, w.Render()+"\n"); err != nil && t.err == nil {
		t.err = err
	}
	t.head, t.rows = nil, nil
}

// fitted is the heading and the rows, with what the terminal has room for.
func (t *Table) fitted() [][]string {
	names := make([]string, len(t.head))
	for i, column := range t.head {
		names[i] = column.name
	}
	lines := append([][]string{names}, t.rows...)
	if t.width == 0 {
		return lines
	}
	shown := t.widths(lines)
	fittedLines := make([][]string, len(lines))
	for i, line := range lines {
		for column, cell := range line {
			if shown[column] > 0 {
				fittedLines[i] = append(fittedLines[i], text.Snip(cell, shown[column], "…"))
			}
		}
	}
	return fittedLines
}

const (
	// leastElastic is the width that a shortened column keeps, if it has as much, while others can be left out.
	leastElastic = 24
	// narrowest is the width that it keeps in any case.
	narrowest = 8
)

// widths gives the width of each column, 0 for one that is not shown.
func (t *Table) widths(lines [][]string) []int {
	natural, total := make([]int, len(t.head)), -len(gap) // the last one has none after it
	for i, column := range t.head {
		empty := len(lines) > 1
		for n, line := range lines {
			natural[i] = max(natural[i], text.StringWidthWithoutEscSequences(line[i]))
			empty = empty && (n == 0 || line[i] == noValue)
		}
		if empty {
			natural[i] = 0
		}
		total += space(leastWidth(column, natural[i]))
	}
	for _, leaves := range []fit{least, minor} {
		for i, column := range slices.Backward(t.head) {
			if natural[i] > 0 && column.fit == leaves && total > t.width {
				total -= space(natural[i])
				natural[i] = 0
				t.hidden = append(t.hidden, column.name)
			}
		}
	}
	// What is left goes to the shortened columns, the first ones first; what is missing they lack, the last ones first.
	room := t.width - total
	for i, column := range t.head {
		if column.fit == elastic {
			width := leastWidth(column, natural[i])
			more := min(max(room, 0), natural[i]-width)
			natural[i], room = width+more, room-more
		}
	}
	for i, column := range slices.Backward(t.head) {
		if column.fit == elastic && natural[i] > 0 {
			less := min(max(-room, 0), max(natural[i]-narrowest, 0))
			natural[i], room = natural[i]-less, room+less
		}
	}
	return natural
}

func leastWidth(column Column, natural int) int {
	if column.fit == elastic {
		return min(natural, leastElastic)
	}
	return natural
}

const gap = "  "

// space is what a column takes with the gap after it.
func space(width int) int {
	if width == 0 {
		return 0
	}
	return width + len(gap)
}

// Colour is the number of an ANSI colour.
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
	case api.StateScheduled, api.StateWaiting, api.StateBlocked:
		return Yellow
	}
	return Plain
}

// Cell is text in a colour.
type Cell struct {
	text   string
	colour Colour
}

// Coloured is a cell for [Table.Row] and [Table.Pair].
func Coloured(text string, c Colour) Cell { return Cell{text, c} }

// Text is the cell's text.
func (c Cell) Text() string { return c.text }

// Colour is the cell's colour.
func (c Cell) Colour() Colour { return c.colour }

func paint(colours bool, c Colour, text string) string {
	if !colours || c == Plain || strings.TrimSpace(text) == "" {
		return text
	}
	return fmt.Sprintf("\x1b[%dm%s\x1b[0m", int(c), text)
}
