package workflows

import (
	"strings"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
)

// layout puts rows in columns, in lines of at most width characters: what is longer is cut. A row may have fewer
// cells than others; its last one does not widen a column.
func layout(rows [][]cli.Cell, width int, paint func(cli.Colour, string) string) string {
	var widths []int
	for _, row := range rows {
		for i, one := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			if i < len(row)-1 {
				widths[i] = max(widths[i], len(runes(one)))
			}
		}
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths, width, paint)
	}
	return b.String()
}

func writeRow(b *strings.Builder, row []cli.Cell, widths []int, width int, paint func(cli.Colour, string) string) {
	last := -1
	for i, one := range row {
		if len(runes(one)) > 0 {
			last = i
		}
	}
	rest := width
	for i := 0; i <= last && rest > 0; i++ {
		text := cut(runes(row[i]), rest)
		rest -= len(text)
		b.WriteString(paint(row[i].Colour(), string(text)))
		if gap := min(rest, max(widths[i]-len(text), 0)+2); i < last {
			b.WriteString(strings.Repeat(" ", gap))
			rest -= gap
		}
	}
	b.WriteString("\n")
}

// runes are a cell's characters, no more than a column has.
func runes(c cli.Cell) []rune { return cut([]rune(cli.Visible(c.Text())), widestCell) }

func cut(text []rune, most int) []rune {
	if len(text) > most {
		return append(append([]rune{}, text[:most-1]...), '…')
	}
	return text
}
