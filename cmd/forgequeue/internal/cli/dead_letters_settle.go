package cli

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// settling is what redrive and discard are told, and where they differ.
type settling struct {
	filter           *deadFilter
	all, dryRun, yes bool

	verb, done string
	// asks says that it cannot be undone.
	asks  bool
	send  func(c *client.Client, ctx context.Context, ids []string) (api.DeadLetterResponse, error)
	count func(c *client.Client, ctx context.Context, ids []string) (api.Matched, error)
}

func (o *settling) flags(command *cobra.Command) {
	o.filter = newDeadFilter(command)
	command.Flags().BoolVar(&o.all, "all", false, "every dead letter")
	command.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say how many it would be")
}

// check wants ids, or a filter, or --all: nothing at all must not mean everything.
func (o *settling) check(ids []string) error {
	filtered := o.filter.filter() != api.DeadLetterFilter{}
	switch {
	case len(ids) > 0 && (filtered || o.all):
		return usage("ids and a filter do not go together; give one of them")
	case len(ids) == 0 && !filtered && !o.all:
		return usage("name ids, or a filter such as --queue, or --all")
	case filtered && o.all:
		return usage("--all and a filter do not go together; give one of them")
	}
	return nil
}

func (s *session) settle(ctx context.Context, o *settling, ids []string) error {
	if err := o.check(ids); err != nil {
		return err
	}
	named := len(ids) > 0
	if !named && (o.dryRun || o.asks && !o.yes) {
		// Counted before anybody is asked, or told.
		found, err := s.findDead(ctx, o)
		if err != nil {
			return err
		}
		ids = found
	}
	if o.dryRun {
		return s.rehearse(ctx, o, ids, named)
	}
	if o.asks && !o.yes {
		if err := s.confirm(o, len(ids)); err != nil {
			return err
		}
	}
	if len(ids) > 0 || named {
		return s.settleIDs(ctx, o, ids)
	}
	return s.settleFilter(ctx, o)
}

// findDead reads the ids of all that match.
func (s *session) findDead(ctx context.Context, o *settling) ([]string, error) {
	ids := []string{}
	err := s.eachDeadPage(ctx, o, func(page []string) (bool, error) {
		ids = append(ids, page...)
		return true, nil
	})
	return ids, err
}

// eachDeadPage reads the list page by page until do says that it is enough. What
// do settles leaves the list behind the cursor, and disturbs nothing.
func (s *session) eachDeadPage(ctx context.Context, o *settling, do func(ids []string) (bool, error)) error {
	page := client.PageRequest{Size: api.MaxPageSize}
	for {
		list, err := s.client.DeadLetters(ctx, o.filter.filter(), page)
		if err != nil {
			return err
		}
		ids := make([]string, len(list.Items))
		for i, dead := range list.Items {
			ids[i] = dead.Job.ID
		}
		more, err := do(ids)
		if err != nil || !more || list.NextPageToken == nil {
			return err
		}
		page.Token = *list.NextPageToken
	}
}

// rehearse says how many there are, and changes nothing. Of named ones the server
// knows which are dead.
func (s *session) rehearse(ctx context.Context, o *settling, ids []string, named bool) error {
	matched := api.Matched{Matched: len(ids)}
	if named {
		matched.Matched = 0
		for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
			some, err := o.count(s.client, ctx, batch)
			if err != nil {
				return err
			}
			matched.Matched += some.Matched
		}
	}
	return s.show(matched, func(t *table) { t.row(fmt.Sprintf("%d would be %s", matched.Matched, o.done)) })
}

// confirm asks a person; where there is none, --yes has to say it.
func (s *session) confirm(o *settling, count int) error {
	if !s.terminal || !isTerminal(s.in) {
		return usage("%s cannot be undone (it would be %d): confirm it with --yes", o.verb, count)
	}
	fmt.Fprintf(s.err, "%s %d dead letters for good? [y/N] ", o.verb, count)
	answer, _ := bufio.NewReader(s.in).ReadString('\n') // no answer is a no
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return fmt.Errorf("nothing was %s", o.done)
	}
	return nil
}

func (s *session) settleIDs(ctx context.Context, o *settling, ids []string) error {
	total := newTally(s, o, len(ids))
	for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
		if more, err := total.send(ctx, batch); err != nil || !more {
			return total.tell(err)
		}
	}
	return total.tell(nil)
}

func (s *session) settleFilter(ctx context.Context, o *settling) error {
	total := newTally(s, o, -1)
	return total.tell(s.eachDeadPage(ctx, o, func(ids []string) (bool, error) { return total.send(ctx, ids) }))
}

// tally is what became of the dead letters so far.
type tally struct {
	*session
	how     *settling
	answer  api.DeadLetterResponse
	ids     []string
	good    int
	advance func(int)
	end     func()
}

func newTally(s *session, o *settling, count int) *tally {
	t := &tally{session: s, how: o, answer: api.DeadLetterResponse{Results: []api.BatchResult{}}, advance: func(int) {}}
	bar, end := s.progress(count, true, o.verb)
	t.end = end
	if bar != nil {
		t.advance = func(n int) { _ = bar.Add(n) } // nobody to be told
	}
	return t
}

// send settles one batch. It wants no more once a limit has refused: the next
// batch would be refused as well.
func (t *tally) send(ctx context.Context, ids []string) (more bool, err error) {
	if len(ids) == 0 {
		return true, nil
	}
	answer, err := t.how.send(t.client, ctx, ids)
	if err != nil {
		return false, err
	}
	more = true
	for _, result := range answer.Results {
		id := ids[result.Index]
		result.Index = len(t.ids)
		t.ids, t.answer.Results = append(t.ids, id), append(t.answer.Results, result)
		if result.Problem == nil {
			t.good++
		}
		more = more && result.Status != http.StatusTooManyRequests
	}
	t.advance(len(ids))
	return more, nil
}

// tell writes what became of each that was refused, and the count. err is what
// stopped the whole; what was done before stays done, and is told too.
func (t *tally) tell(err error) error {
	t.end()
	refused := len(t.answer.Results) - t.good
	for i, result := range t.answer.Results {
		if result.Problem != nil {
			t.note("%s: %s: %s", t.ids[i], result.Problem.Code, result.Problem.Detail)
		}
	}
	if shown := t.show(t.answer, func(w *table) {
		w.row(fmt.Sprintf("%d %s, %d refused", t.good, t.how.done, refused))
	}); shown != nil {
		return shown
	}
	if err == nil && refused > 0 {
		return errSaid
	}
	return err
}
