package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/text"
	"golang.org/x/term"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// watchEvery is how often a list is read that is watched.
const watchEvery = 2 * time.Second

// watch shows a list until it is interrupted, which is no failure: on a terminal the table is written again in its
// place, and a program gets a line for each item that is new or has changed. A server that does not answer for a while
// does not end it.
func watch[T any](
	ctx context.Context, s *Session, p Paging, read func(context.Context, client.PageRequest) (api.Page[T], error), fill func(t *Table, all []T),
) error {
	if err := watchable(s, p); err != nil {
		return err
	}
	w := &watched{Session: s, seen: map[string]string{}}
	for first := true; ; first = false {
		page, err := Collect(ctx, p, read)
		switch {
		case Interrupted(ctx):
			return nil
		case err != nil && (first || !passing(err)):
			return err
		}
		if err := w.show(page, page.NextPageToken != nil, err, func(t *Table) { fill(t, page.Items) }); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func watchable(s *Session, p Paging) error {
	switch {
	case p.limit == 0:
		return Usage("--watch reads the list again and again, so --limit must not be 0")
	case s.form == formJSON, s.form == formTable && !isTerminal(s.Out):
		return Usage("--watch needs a terminal; for a program, -o jsonl writes a line for each item that is new or has changed")
	}
	return nil
}

// passing reports whether a repeat of the call may succeed.
func passing(err error) bool {
	status := client.Status(err)
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || NoAnswer(err)
}

// watched is a list that is shown again and again.
type watched struct {
	*Session
	// seen are the items of the list, by their names.
	seen map[string]string
	// last is the table of the last answer.
	last []string
}

// show writes what a reading of the list gave: page, or failure.
func (w *watched) show(page any, more bool, failure error, fill func(*Table)) error {
	switch {
	case w.form == formTable:
		return w.paint(more, failure, fill)
	case failure != nil:
		w.Note("no answer: %v", failure)
		return nil
	}
	return w.changes(page)
}

// paint writes the table over the one before, no more of it than the terminal has lines. failure is why there is no new
// one.
func (w *watched) paint(more bool, failure error, fill func(*Table)) error {
	title := "every " + watchEvery.String() + ": " + w.Command.CommandPath() + ", " + time.Now().Format(time.TimeOnly) + ", Ctrl-C ends it"
	if failure != nil {
		title = paint(w.colours, Red, "no new answer since the last one: "+Visible(strings.SplitN(failure.Error(), "\n", 2)[0])) //nolint:mnd // the first line
	} else {
		var out bytes.Buffer
		t := w.table(&out)
		fill(t)
		t.flush()
		w.last = strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if len(t.hidden) > 0 {
			title += "; left out for the width: " + strings.Join(t.hidden, ", ")
		}
		if more {
			w.last = append(w.last, "… and more: --limit shows them")
		}
	}
	lines := append([]string{title, ""}, w.last...)
	if file, ok := fileOf(w.Out); ok {
		if _, height, err := term.GetSize(int(file.Fd())); err == nil && height > 1 && len(lines) > height-1 {
			lines = append(lines[:height-2], "…")
		}
	}
	for i := range lines {
		lines[i] = text.Snip(lines[i], w.Width(), "…")
	}
	const home, clearLine, clearBelow = "\x1b[H", "\x1b[K\n", "\x1b[J"
	_, err := fmt.Fprint(w.Out, home+strings.Join(lines, clearLine)+clearLine+clearBelow)
	return err
}

// changes writes the items that are new or have changed.
func (w *watched) changes(page any) error {
	whole, err := plainJSON(page, "")
	if err != nil {
		return err
	}
	now := map[string]string{}
	for _, item := range itemsOf(whole) {
		name, ok := nameOf(item)
		if !ok {
			name = string(item)
		}
		now[name] = string(item)
		if before, known := w.seen[name]; known && (before == string(item) || w.form == formName) {
			continue
		}
		if err := w.writeLines(item); err != nil {
			return err
		}
	}
	w.seen = now
	return nil
}
