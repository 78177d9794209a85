package jobs

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

// bulk is a redrive or a discard of many dead letters: its flags, and what differs between the two.
type bulk struct {
	filter                   *deadLetterFilter
	all, dryRun, yes, detach bool
	rate                     float64
	wait                     time.Duration
	canary                   canaryFlags

	verb, done string
	// irreversible asks for a confirmation.
	irreversible bool
	send         func(c *client.Client, ctx context.Context, ids []string) (api.DeadLetterResponse, error)
	count        func(c *client.Client, ctx context.Context, ids []string) (api.Matched, error)
	start        func(c *client.Client, ctx context.Context, filter api.DeadLetterFilter, rate float64) (api.Redrive, error)
	// startCareful is nil for a discard, which has no canary.
	startCareful func(c *client.Client, ctx context.Context, filter api.DeadLetterFilter, rate float64, canary api.CanaryRequest) (api.Redrive, error)
}

func (o *bulk) flags(command *cobra.Command) {
	o.filter = newDeadLetterFilter(command)
	command.Flags().BoolVar(&o.all, "all", false, "every dead letter")
	command.Flags().BoolVar(&o.dryRun, "dry-run", false, "only count them")
	command.Flags().Float64Var(&o.rate, "rate", 0, "by filter: at most this many a second; 0: the default pace")
	command.Flags().BoolVar(&o.detach, "detach", false, "by filter: do not wait for the end")
	waitFlag(command, &o.wait)
}

// check requires ids, a filter or --all: no argument must not mean all dead letters.
func (o *bulk) check(ids []string) error {
	filtered := o.filter.filter() != api.DeadLetterFilter{}
	switch {
	case len(ids) > 0 && (filtered || o.all):
		return cli.Usage("ids and a filter do not go together; give one of them")
	case len(ids) > 0 && (o.rate != 0 || o.detach):
		return cli.Usage("--rate and --detach apply to --all or a filter only")
	case len(ids) > 0 && o.canary.given():
		return cli.Usage("--canary applies to --all or a filter only")
	case o.rate < 0:
		return cli.Usage("--rate %g: must not be negative", o.rate)
	case len(ids) == 0 && !filtered && !o.all:
		return cli.Usage("name ids, or a filter such as --queue, or --all")
	case filtered && o.all:
		return cli.Usage("--all and a filter do not go together; give one of them")
	}
	return o.canary.check()
}

func runBulk(ctx context.Context, s *cli.Session, o *bulk, ids []string) error {
	if err := o.check(ids); err != nil {
		return err
	}
	if len(ids) == 0 {
		return bulkByFilter(ctx, s, o)
	}
	if o.dryRun {
		return dryRunIDs(ctx, s, o, ids)
	}
	if o.irreversible && !o.yes {
		if err := confirm(s, o, fmt.Sprint(len(ids))); err != nil {
			return err
		}
	}
	return bulkByIDs(ctx, s, o, ids)
}

// bulkByFilter makes the server redrive or discard all that match, and follows its progress.
func bulkByFilter(ctx context.Context, s *cli.Session, o *bulk) error {
	if o.dryRun || o.irreversible && !o.yes {
		matched, err := s.Client.CountMatching(ctx, o.filter.filter())
		if err != nil {
			return err
		}
		if o.dryRun {
			return showDryRun(s, o, matched)
		}
		if err := confirm(s, o, counted(matched)); err != nil {
			return err
		}
	}
	made, err := o.begin(ctx, s)
	if err != nil {
		return err
	}
	if o.detach {
		return s.Show(made, func(t *cli.Table) { oneRedrive(t, made) })
	}
	return follow(ctx, s, made, o.wait)
}

func (o *bulk) begin(ctx context.Context, s *cli.Session) (api.Redrive, error) {
	if o.canary.given() {
		return o.startCareful(s.Client, ctx, o.filter.filter(), o.rate, o.canary.request())
	}
	return o.start(s.Client, ctx, o.filter.filter(), o.rate)
}

// counted is how many match. The server stops counting at a limit.
func counted(m api.Matched) string {
	if m.MatchedCapped {
		return fmt.Sprintf("at least %d", m.Matched)
	}
	return fmt.Sprint(m.Matched)
}

func showDryRun(s *cli.Session, o *bulk, matched api.Matched) error {
	first := ""
	if o.canary.given() {
		matched.Sample = new(min(matched.Matched, int64(o.canary.count)))
		first = fmt.Sprintf(", a sample of %d first", *matched.Sample)
	}
	return s.Show(matched, func(t *cli.Table) { t.Row(counted(matched) + " would be " + o.done + first) })
}

// dryRunIDs shows how many of the ids are dead letters, and changes nothing.
func dryRunIDs(ctx context.Context, s *cli.Session, o *bulk, ids []string) error {
	var matched api.Matched
	for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
		some, err := o.count(s.Client, ctx, batch)
		if err != nil {
			return err
		}
		matched.Matched += some.Matched
	}
	return showDryRun(s, o, matched)
}

func confirm(s *cli.Session, o *bulk, count string) error {
	return sure(s, o.verb, count+" dead letters")
}

// sure asks the user whether to do what cannot be undone; without a terminal, --yes is required.
func sure(s *cli.Session, verb, what string) error {
	if !s.Interactive() {
		return cli.Usage("%s cannot be undone (it would be %s): confirm it with --yes", verb, what)
	}
	fmt.Fprintf(s.Err, "%s %s permanently? [y/N] ", verb, what)
	answer, _ := bufio.NewReader(s.In).ReadString('\n') // no answer is a no
	if word := strings.ToLower(strings.TrimSpace(answer)); word != "y" && word != "yes" {
		return fmt.Errorf("nothing was changed")
	}
	return nil
}

func bulkByIDs(ctx context.Context, s *cli.Session, o *bulk, ids []string) error {
	total := newTally(s, o, len(ids))
	for batch := range slices.Chunk(ids, api.MaxBatchJobs) {
		if more, err := total.send(ctx, batch); err != nil || !more {
			return total.report(err)
		}
	}
	return total.report(nil)
}

// tally collects the results of the batches.
type tally struct {
	*cli.Session
	how     *bulk
	answer  api.DeadLetterResponse
	ids     []string
	good    int
	advance func(int)
	end     func()
}

func newTally(s *cli.Session, o *bulk, count int) *tally {
	t := &tally{Session: s, how: o, answer: api.DeadLetterResponse{Results: []api.BatchResult{}}, advance: func(int) {}}
	bar, end := s.Progress(count, true, o.verb)
	t.end = end
	if bar != nil {
		t.advance = func(n int) { _ = bar.Add(n) } // a failed write to a terminal changes nothing
	}
	return t
}

// send sends one batch. more is false after a limit has refused some of it: the limit would refuse the next batch
// too.
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

// report writes each refusal and the counts. err is what stopped the whole; the batches before it stay done and
// are counted.
func (t *tally) report(err error) error {
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
