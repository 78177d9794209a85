package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/forgequeue/forgequeue/shared/api"
)

// What is not seen, and turns what is beside it round, is escaped.
func TestHiddenCharactersAreEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	table := &Table{to: &out}
	table.Head("NAME", "ERROR")
	table.Row("a\u202eb", Coloured("\u2066c\u200b", Red))
	table.Pair("is", "\u2028")
	table.Below("\u200f")
	table.flush()
	if strings.ContainsAny(out.String(), "\u202e\u2066\u200b\u2028\u200f") || !strings.Contains(out.String(), `a\u202eb  \u2066c\u200b`) {
		t.Errorf("%q", out.String())
	}
}

// Colours must not shift the columns, and text of other users must not colour.
func TestTable(t *testing.T) {
	t.Parallel()
	var plainText, colourful bytes.Buffer
	for out, colours := range map[*bytes.Buffer]bool{&plainText: false, &colourful: true} {
		table := &Table{to: out, look: look{colours: colours}}
		table.Head("ID", "STATE", "ERROR")
		table.Row(1, Coloured("running", Blue), "\x1b[31mred\nline")
		table.Row(2, Coloured("dead_letter", Red), "")
		table.flush()
	}
	stripped := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(colourful.String(), "")
	if stripped != plainText.String() || !strings.Contains(colourful.String(), "\x1b[31mdead_letter\x1b[0m") {
		t.Errorf("%q\n%q", colourful.String(), plainText.String())
	}
	if lines := strings.Split(plainText.String(), "\n"); len(lines) != 4 || lines[1] != "1   running       [31mred line" || lines[2] != "2   dead_letter  -" {
		t.Errorf("%q", lines)
	}
}

// On a terminal no line is wider than it, as long as the columns that are always shown have room. A program gets all
// columns, in full, at each width.
func TestTableFitsTheTerminal(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	id, long := "0199f0a4-7c1e-7000-8000-5d2c6f1e9a10", "Timeout: "+strings.Repeat("wörter ", 30)
	show := func(width int) (*Table, []string) {
		var out bytes.Buffer
		table := &Table{to: &out, look: look{width: width, now: now}}
		table.Head("ID", "STATE", Least("QUEUE"), Minor("CREATED"), Minor("USER"), Long("ERROR"))
		table.Row(id, "queued", "mail", api.At(now.Add(-90*time.Second)), "", "")
		table.Row(id, "dead_letter", "日本語のキュー", api.At(now.Add(25*time.Hour)), "", long)
		table.flush()
		return table, strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	}
	for width, hidden := range map[int]string{200: "", 110: "", 100: "QUEUE", 80: "QUEUE CREATED"} {
		table, lines := show(width)
		if got := strings.Join(table.hidden, " "); got != hidden || len(lines) != 3 {
			t.Errorf("at %d: without %q, want without %q: %q", width, got, hidden, lines)
		}
		for _, line := range lines {
			// Each of the wide characters takes two columns.
			columns := utf8.RuneCountInString(line) + strings.Count(line, "日本語のキュー")*7
			if columns > width || strings.Contains(line, "ID") == strings.Contains(line, id) {
				t.Errorf("at %d: %d columns: %q", width, columns, line)
			}
		}
		if strings.Contains(lines[0], "USER") || !strings.Contains(lines[2], "Timeout: w") || !strings.HasSuffix(lines[2], "…") {
			t.Errorf("at %d: %q", width, lines)
		}
	}
	// A dead letter with a short type: what is always shown leaves 23 columns for the error.
	var out bytes.Buffer
	narrow := &Table{to: &out, look: look{width: 80, now: now}}
	narrow.Head("ID", "STATE", "TYPE", Minor("QUEUE"), Long("LAST ERROR"))
	narrow.Row(id, "dead_letter", "x", "mail", long)
	narrow.flush()
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 || strings.Contains(line, id) && n != 80 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if _, lines := show(200); !strings.Contains(lines[1], "1min ago") || !strings.Contains(lines[2], "1d from now") {
		t.Errorf("%q", lines)
	}
	if table, lines := show(0); len(table.hidden) > 0 || !strings.Contains(lines[0], "USER") || !strings.Contains(lines[1], "2026-11-24T11:58:30Z") || !strings.HasSuffix(lines[2], strings.TrimSpace(long)) {
		t.Errorf("for a program: %q", lines)
	}
}

func TestRelativeTimes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	for distance, want := range map[time.Duration]string{
		0: "now", -900 * time.Millisecond: "now", -time.Second: "1s ago", 59 * time.Second: "59s from now", -time.Minute: "1min ago",
		-59 * time.Minute: "59min ago", -time.Hour: "1h ago", 23 * time.Hour: "23h from now", -24 * time.Hour: "1d ago", -29 * 24 * time.Hour: "29d ago",
		-30 * 24 * time.Hour: "2026-10-25", 400 * 24 * time.Hour: "2027-12-29",
	} {
		if got := relative(now.Add(distance), now); got != want {
			t.Errorf("%v: %q, want %q", distance, got, want)
		}
	}
}
