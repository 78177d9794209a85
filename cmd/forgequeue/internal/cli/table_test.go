package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"text/tabwriter"
)

// Colours must not shift the columns, and text of other users must not colour.
func TestTable(t *testing.T) {
	t.Parallel()
	var plainText, colourful bytes.Buffer
	for out, colours := range map[*bytes.Buffer]bool{&plainText: false, &colourful: true} {
		table := &Table{w: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0), colours: colours}
		table.Row("ID", Coloured("STATE", Plain), "ERROR")
		table.Row(1, Coloured("running", Blue), "\x1b[31mred\nline")
		table.Row(2, Coloured("dead_letter", Red), "")
		if err := table.w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	stripped := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(colourful.String(), "")
	if stripped != plainText.String() || !strings.Contains(colourful.String(), "\x1b[31mdead_letter\x1b[0m") {
		t.Errorf("%q\n%q", colourful.String(), plainText.String())
	}
	if lines := strings.Split(plainText.String(), "\n"); len(lines) != 4 || lines[1] != "1   running       [31mred line" || lines[2] != "2   dead_letter  -" {
		t.Errorf("%q", lines)
	}
}
