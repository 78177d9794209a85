package view

import (
	"regexp"
	"strings"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/plaintext"
)

// OutputRun is a part of a job's output: chunks of one stream that follow each other, in one attempt.
type OutputRun struct {
	Stream string
	// Gap says that output before it is missing; Claimed that it is the first of another claim of the job.
	Gap, Claimed bool
	Texts        []string
}

// OutputRuns arranges chunks of output, the oldest first.
func OutputRuns(chunks []api.Output) (runs []OutputRun) {
	epoch := ""
	for i := range chunks {
		chunk := &chunks[i]
		its, _, _ := strings.Cut(chunk.ID, ".")
		claimed := epoch != "" && epoch != its
		epoch = its
		if claimed || chunk.Gap || i == 0 || runs[len(runs)-1].Stream != chunk.Stream {
			runs = append(runs, OutputRun{Stream: chunk.Stream, Gap: chunk.Gap, Claimed: claimed})
		}
		last := &runs[len(runs)-1]
		last.Texts = append(last.Texts, OutputText(chunk.Text))
	}
	return runs
}

// terminal is a sequence that a terminal obeys and does not show: a colour, a cursor, a title, a link.
var terminal = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[\x20-\x2f]*[\x40-\x7e]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[\x20-\x2f]*[\x30-\x7e]`)

// OutputText is the text of a chunk as a page shows it: without sequences for a terminal, and with other characters that are not seen
// escaped. What a chunk has only a part of is shown. assets/output.js does the same.
func OutputText(text string) string {
	text = terminal.ReplaceAllLiteralString(text, "")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	if !strings.ContainsFunc(text, unseen) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if unseen(c) {
			b.WriteString(plaintext.Escape(c))
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

func unseen(c rune) bool {
	return c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || plaintext.Hidden(c)
}
