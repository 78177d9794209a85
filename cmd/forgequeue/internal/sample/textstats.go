package sample

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode"

	"github.com/forgequeue/forgequeue/shared/worker"
)

// topWords is how many of the most frequent words the result has.
const topWords = 10

// Document is a text with a name; the payload of text.stats.
type Document struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Stats is the result of text.stats.
type Stats struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`
	// Lines counts a last line without a newline as well.
	Lines         int         `json:"lines"`
	Words         int         `json:"words"`
	DistinctWords int         `json:"distinct_words"`
	Top           []WordCount `json:"top"`
}

// WordCount is how often a word occurs.
type WordCount struct {
	Word  string `json:"word"`
	Count int    `json:"count"`
}

// TextStats counts what is in a document. It cannot fail.
func TextStats(_ context.Context, job *worker.Job[Document]) (Stats, error) {
	return count(job.Payload), nil
}

func count(document Document) Stats {
	stats := Stats{Name: document.Name, Bytes: len(document.Text), Lines: strings.Count(document.Text, "\n"), Top: []WordCount{}}
	if document.Text != "" && !strings.HasSuffix(document.Text, "\n") {
		stats.Lines++
	}
	counts := map[string]int{}
	for _, word := range words(document.Text) {
		counts[word]++
		stats.Words++
	}
	stats.DistinctWords = len(counts)
	for word, n := range counts {
		stats.Top = append(stats.Top, WordCount{word, n})
	}
	slices.SortFunc(stats.Top, func(a, b WordCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Word, b.Word))
	})
	stats.Top = slices.Clip(stats.Top[:min(len(stats.Top), topWords)])
	return stats
}

// words are the words of text in order, in lower case. A word is made of
// letters and digits, with the marks that belong to them (most scripts of India
// and decomposed accents have such), and of apostrophes between them; the
// typographic apostrophe counts as the plain one, so that don’t is don't.
func words(text string) []string {
	var found []string
	var word strings.Builder
	apostrophe := false // one was read, and belongs to the word if a letter follows
	end := func() {
		if word.Len() > 0 {
			found = append(found, strings.ToLower(word.String()))
		}
		word.Reset()
		apostrophe = false
	}
	for _, c := range text {
		switch {
		case unicode.IsLetter(c) || unicode.IsDigit(c):
			if apostrophe {
				word.WriteByte('\'')
				apostrophe = false
			}
			word.WriteRune(c)
		case unicode.IsMark(c) && word.Len() > 0 && !apostrophe:
			word.WriteRune(c)
		case (c == '\'' || c == '’') && word.Len() > 0 && !apostrophe:
			apostrophe = true
		default:
			end()
		}
	}
	end()
	return found
}
