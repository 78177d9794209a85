package cli

import (
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// visibleLines is Visible for a text of several lines.
func visibleLines(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = Visible(line)
	}
	return strings.Join(lines, "\n")
}

// visibleText is visibleLines with the tabs, and without the carriage returns at the ends of lines.
func visibleText(text string) string {
	fields := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\t")
	for i, field := range fields {
		fields[i] = visibleLines(field)
	}
	return strings.Join(fields, "\t")
}

// Brief is the first line of a text, cut to fit into a table.
func Brief(text string) string {
	const most = 80
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// units are those of relative times, each up to its limit.
var units = []humanize.RelTimeMagnitude{
	{D: time.Second, Format: "now"},
	{D: time.Minute, Format: "%ds %s", DivBy: time.Second},
	{D: time.Hour, Format: "%dmin %s", DivBy: time.Minute},
	{D: humanize.Day, Format: "%dh %s", DivBy: time.Hour},
	{D: humanize.LongTime, Format: "%dd %s", DivBy: humanize.Day},
}

// relative is a time as seen from now, such as "3min ago"; the date of one that is more than a month away.
func relative(at, now time.Time) string {
	if distance := at.Sub(now).Abs(); distance >= humanize.Month {
		return at.UTC().Format(time.DateOnly)
	}
	return humanize.CustomRelTime(at, now, "ago", "from now", units)
}

// StampLayout is the layout of times in tables. [Instant] reads it too.
const StampLayout = time.RFC3339

// Stamp is a time for a table; empty for none.
func Stamp(at *api.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(StampLayout)
}

// About is a duration with two digits or three: a tenth of a second at least.
func About(d time.Duration) string {
	switch {
	case d >= time.Hour:
		return d.Round(time.Minute).String()
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// Milliseconds is a duration for a table.
func Milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// OrElse is a text that may be absent, or what stands in its place.
func OrElse(text *string, otherwise string) string {
	if text == nil {
		return otherwise
	}
	return *text
}

// Visible replaces control characters, which move the cursor or colour the text, with spaces, and escapes characters that
// are not seen and turn the direction of writing or break the line.
func Visible(text string) string {
	return plaintext.Visible(strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, text))
}
