package jobs

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// settling is what redrive and discard are told, and where they differ.
type settling struct {
	filter                   *deadFilter
	all, dryRun, yes, detach bool
	rate                     float64

	verb, done string
	// asks says that it cannot be undone.
	asks  bool
	send  func(c *client.Client, ctx context.Context, ids []string) (api.DeadLetterResponse, error)
	count func(c *client.Client, ctx context.Context, ids []string) (api.Matched, error)
	begin func(c *client.Client, ctx context.Context, filter api.DeadLetterFilter, rate float64) (api.Redrive, error)
}

func (o *settling) flags(command *cobra.Command) {
	o.filter = newDeadFilter(command)
	command.Flags().BoolVar(&o.all, "all", false, "every dead letter")
	command.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say how many it would be")
	command.Flags().Float64Var(&o.rate, "rate", 0, "by filter: so many a second at most; 0 is as fast as is kind to others")
	command.Flags().BoolVar(&o.detach, "detach", false, "by filter: do not wait for the end")
}

// check wants ids, or a filter, or --all: nothing at all must not mean everything.
func (o *settling) check(ids []string) error {
	filtered := o.filter.filter() != api.DeadLetterFilter{}
	switch {
	case len(ids) > 0 && (filtered || o.all):
		return cli.Usage("ids and a filter do not go together; give one of them")
	case len(ids) > 0 && (o.rate != 0 || o.detach):
		return cli.Usage("--rate and --detach go with a filter; what is named is done at once")
	case o.rate < 0:
		return cli.Usage("--rate %g: must not be negative", o.rate)
	case len(ids) == 0 && !filtered && !o.all:
		return cli.Usage("name ids, or a filter such as --queue, or --all")
	case filtered && o.all:
		return cli.Usage("--all and a filter do not go together; give one of them")
	}
	return nil
}

func settle(ctx context.Context, s *cli.Session, o *settling, ids []string) error {
	if err := o.check(ids); err != nil {
		return err
	}
	if len(ids) == 0 {
		return settleFilter(ctx, s, o)
	}
	if o.dryRun {
		return rehearse(ctx, s, o, ids)
	}
	if o.asks && !o.yes {
		if err := confirm(s, o, fmt.Sprint(len(ids))); err != nil {
			return err
		}
	}
	return settleIDs(ctx, s, o, ids)
}

// settleFilter has the server settle all that match, and watches it.
func settleFilter(ctx context.Context, s *cli.Session, o *settling) error {
	if o.dryRun || o.asks && !o.yes {
		matched, err := s.Client.CountMatching(ctx, o.filter.filter())
		if err != nil {
			return err
		}
		if o.dryRun {
			return foresee(s, o, matched)
		}
		if err := confirm(s, o, counted(matched)); err != nil {
			return err
		}
	}
	made, err := o.begin(s.Client, ctx, o.filter.filter(), o.rate)
	if err != nil {
		return err
	}
	if o.detach {
		return s.Show(made, func(t *cli.Table) { oneRedrive(t, made) })
	}
	return follow(ctx, s, made)
}

// counted says how many match; counting has an end.
func counted(m api.Matched) string {
	if m.MatchedCapped {
		return fmt.Sprintf("at least %d", m.Matched)
	}
	return fmt.Sprint(m.Matched)
}

func foresee(s *cli.Session, o *settling, matched api.Matched) error {
	return s.Show(matched, func(t *cli.Table) { t.Row(counted(matched) + " would be " + o.done) })
}

// rehearse says how many of those that are named are dead, and changes nothing.
func rehearse(ctx context.Context, s *cli.Session, o *settling, ids []string) error {
	var matched api.Matched
	for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
		some, err := o.count(s.Client, ctx, batch)
		if err != nil {
			return err
		}
		matched.Matched += some.Matched
	}
	return foresee(s, o, matched)
}

// confirm asks a person; where there is none, --yes has to say it.
func confirm(s *cli.Session, o *settling, count string) error {
	if !s.Interactive() {
		return cli.Usage("%s cannot be undone (it would be %s): confirm it with --yes", o.verb, count)
	}
	fmt.Fprintf(s.Err, "%s %s dead letters for good? [y/N] ", o.verb, count)
	answer, _ := bufio.NewReader(s.In).ReadString('\n') // no answer is a no
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return fmt.Errorf("nothing was %s", o.done)
	}
	return nil
}

func settleIDs(ctx context.Context, s *cli.Session, o *settling, ids []string) error {
	total := newTally(s, o, len(ids))
	for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
		if more, err := total.send(ctx, batch); err != nil || !more {
			return total.tell(err)
		}
	}
	return total.tell(nil)
}

// tally is what became of the dead letters so far.
type tally struct {
	*cli.Session
	how     *settling
	answer  api.DeadLetterResponse
	ids     []string
	good    int
	advance func(int)
	end     func()
}

func newTally(s *cli.Session, o *settling, count int) *tally {
	t := &tally{Session: s, how: o, answer: api.DeadLetterResponse{Results: []api.BatchResult{}}, advance: func(int) {}}
	bar, end := s.Progress(count, true, o.verb)
	t.end = end
	if bar != nil {
		t.advance = func(n int) { _ = bar.Add(n) } // nobody to be told
	}
	return t
}

// send settles one batch. It wants no more once a limit has refused: the next
// batch would be refused as well.
func (t *tally) send(ctx context.Context, ids []string) (more bool, err error) {
	answer, err := t.how.send(t.Client, ctx, ids)
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
			t.Note("%s: %s: %s", t.ids[i], result.Problem.Code, result.Problem.Detail)
		}
	}
	if shown := t.Show(t.answer, func(w *cli.Table) {
		w.Row(fmt.Sprintf("%d %s, %d refused", t.good, t.how.done, refused))
	}); shown != nil {
		return shown
	}
	if err == nil && refused > 0 {
		return cli.ErrReported
	}
	return err
}
