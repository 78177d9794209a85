package jobs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

func newBulk(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "bulk",
		Aliases: []string{"bulks"},
		Short:   "Change all jobs that match a filter: cancel, move, delay, rerun and others; list, get, watch, stop",
		Example: `  forgequeue bulk cancel --queue nightly --state queued --dry-run
  forgequeue bulk set-priority 9 --user ada`,
		Args: cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List bulk actions, newest first", (*client.Client).Bulks, bulks)
	command.Flags().AddFlagSet(list.Flags()) // `bulk` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list,
		cli.Call(a.AsTenant, "get ID", "Show the progress of a bulk action", (*client.Client).GetBulk, oneBulk),
		newBulkWatch(a),
		cli.Call(a.AsTenant, "stop ID", "Stop a bulk action; processed jobs are not reverted", (*client.Client).CancelBulk, oneBulk),
		newBulkAction(a, "cancel", "Cancel live jobs; request that running ones stop", "cancel --queue nightly --state queued --dry-run", api.BulkCancel, nil),
		newBulkAction(a, "move QUEUE", "Move waiting jobs to another queue", "move slow --queue nightly --type newsletter", api.BulkMove, func(value string) (*api.BulkTarget, error) {
			return &api.BulkTarget{Queue: &value}, nil
		}),
		newBulkAction(a, "set-priority N", "Set the priority of waiting jobs: 0 to 9, higher first", "set-priority 9 --user ada", api.BulkSetPriority, func(value string) (*api.BulkTarget, error) {
			var priority int
			if _, err := fmt.Sscanf(value, "%d", &priority); err != nil {
				return nil, cli.Usage("%s: the priority must be a whole number from 0 to 9", value)
			}
			return &api.BulkTarget{Priority: &priority}, nil
		}),
		newBulkAction(a, "run-now", "Start waiting jobs now, also those that wait for a retry", "run-now --queue nightly --state scheduled", api.BulkRunNow, nil),
		newBulkAction(a, "delay DURATION", "Start waiting jobs no sooner than after this long, such as 10m", "delay 10m --tag smtp --rate 100", api.BulkDelay, func(value string) (*api.BulkTarget, error) {
			delay, err := time.ParseDuration(value)
			if err != nil {
				return nil, cli.Usage("%s: the delay must be a duration such as 90s or 10m", value)
			}
			return &api.BulkTarget{DelayMS: new(delay.Milliseconds())}, nil
		}),
		newBulkAction(a, "rerun", "Submit new jobs like ended ones", "rerun --state cancelled --created-after 2h --queue nightly", api.BulkRerun, nil),
		newBulkAction(a, "delete", "Delete ended jobs with their attempts and output", "delete --state completed --queue nightly --dry-run", api.BulkDelete, nil),
	)
	return command
}

// newBulkAction is the command of an action; target reads its argument, and is nil where it has none.
func newBulkAction(a *cli.App, use, short, example, action string, target func(string) (*api.BulkTarget, error)) *cobra.Command {
	command := &cobra.Command{Use: use, Short: short, Example: "  forgequeue bulk " + example, Args: cobra.NoArgs}
	if target != nil {
		command.Args = cli.One()
	}
	var o many
	o.flags(command.Flags())
	completeStates(command)
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		request := api.BulkRequest{Action: action}
		if target != nil {
			var err error
			if request.To, err = target(args[0]); err != nil {
				return err
			}
		}
		return o.run(ctx, s, request)
	})
	return command
}

// many are the flags of an action on many jobs.
type many struct {
	queue, jobType, tag, user, dedupeKey, key string
	states, metadata                          []string
	after, before                             cli.Instant
	all, dryRun, yes, detach                  bool
	rate                                      float64
	wait                                      time.Duration
}

func (o *many) flags(flags *pflag.FlagSet) {
	flags.StringVarP(&o.queue, "queue", "q", "", "of this queue")
	flags.StringVar(&o.jobType, "type", "", "of this type")
	flags.StringSliceVar(&o.states, "state", nil, "in one of these states, such as queued,running")
	flags.StringVar(&o.tag, "tag", "", "with this tag")
	flags.StringVar(&o.user, "user", "", "of this user")
	flags.StringVar(&o.dedupeKey, "dedupe-key", "", "with this deduplication key")
	flags.StringVar(&o.key, "key", "", "of this key")
	flags.StringArrayVar(&o.metadata, "metadata", nil, "with this NAME=VALUE; repeatable")
	o.after, o.before = cli.Instant{Back: true}, cli.Instant{Back: true}
	flags.Var(&o.after, "created-after", "made after this time, or within this long, such as 2h")
	flags.Var(&o.before, "created-before", "made before this time, or longer ago than this")
	flags.BoolVar(&o.all, "all", false, "every job")
	flags.BoolVar(&o.dryRun, "dry-run", false, "only count them")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask for a confirmation")
	flags.Float64Var(&o.rate, "rate", 0, "at most this many a second; 0: the default pace")
	flags.BoolVar(&o.detach, "detach", false, "do not wait for the end")
	flags.DurationVar(&o.wait, "wait-timeout", 0, "wait for at most this long (default: without end)")
}

func (o *many) filter() (filter api.BulkFilter, err error) {
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	filter = api.BulkFilter{
		Queue: text(o.queue), Type: text(o.jobType), State: o.states, Tag: text(o.tag), User: text(o.user), DedupeKey: text(o.dedupeKey),
		Key: text(o.key), CreatedAfter: o.after.At, CreatedBefore: o.before.At,
	}
	filter.Metadata, err = pairs(o.metadata)
	return filter, err
}

// given says that a flag chooses jobs.
func (o *many) given() bool {
	return o.queue+o.jobType+o.tag+o.user+o.dedupeKey+o.key != "" || len(o.states)+len(o.metadata) > 0 || o.after.At != nil || o.before.At != nil
}

// run begins an action, and shows its progress until it ends. No filter must not mean all jobs.
func (o *many) run(ctx context.Context, s *cli.Session, request api.BulkRequest) (err error) {
	switch {
	case !o.given() && !o.all:
		return cli.Usage("choose jobs by a filter such as --queue or --state, or give --all")
	case o.given() && o.all:
		return cli.Usage("--all and a filter do not go together; give one of them")
	case o.rate < 0:
		return cli.Usage("--rate %g: must not be negative", o.rate)
	case o.wait < 0:
		return cli.Usage("--wait-timeout must not be negative")
	case o.rate > 0:
		request.RatePerSecond = &o.rate
	}
	if request.Filter, err = o.filter(); err != nil {
		return err
	}
	ask := !o.yes && (request.Action == api.BulkCancel || request.Action == api.BulkDelete)
	if o.dryRun || ask {
		matched, err := s.Client.CountBulk(ctx, request)
		if err != nil {
			return err
		}
		if o.dryRun {
			return s.Show(matched, func(t *cli.Table) { t.Row(counted(matched) + " jobs match") })
		}
		if err := sure(s, request.Action, counted(matched)+" jobs"); err != nil {
			return err
		}
	}
	made, err := s.Client.Bulk(ctx, request)
	if err != nil {
		return err
	}
	if o.detach {
		return s.Show(made, func(t *cli.Table) { oneBulk(t, made) })
	}
	return followBulk(ctx, s, made, o.wait)
}

func newBulkWatch(a *cli.App) *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{Use: "watch ID", Short: "Wait until a bulk action ends", Args: cli.One()}
	waitFlag(command, &limit)
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		made, err := s.Client.GetBulk(ctx, args[0])
		if err != nil {
			return err
		}
		return followBulk(ctx, s, made, limit)
	})
	return command
}

// followBulk shows the progress of a bulk action until it ends, for at most limit (0: without end). The server continues if this is
// interrupted.
func followBulk(ctx context.Context, s *cli.Session, made api.Bulk, limit time.Duration) error {
	caller := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bar, end := s.Progress(int(max(made.Matched, 1)), true, made.Action)
	defer end()
	for made.State == api.RedriveRunning {
		if bar != nil {
			_ = bar.Set64(made.Done + made.Refused) // a failed write to a terminal changes nothing
		}
		err := wait.For(ctx, redrivePollEvery)
		if err == nil {
			var now api.Bulk
			if now, err = s.Client.GetBulk(ctx, made.ID); err == nil {
				made = now
				continue
			}
		}
		end()
		s.Note("%s continues: forgequeue bulk watch %[1]s, or stop", made.ID)
		if caller.Err() == nil && ctx.Err() != nil {
			return cli.TimedOut(fmt.Errorf("%s has not ended within %v: %d are done", made.ID, limit, made.Done))
		}
		return err
	}
	end()
	if err := s.Show(made, func(t *cli.Table) {
		t.Row(fmt.Sprintf("%d done, %d refused%s", made.Done, made.Refused, refusals(made)))
	}); err != nil {
		return err
	}
	switch {
	case made.State == api.RedriveFailed && made.Error != nil:
		return errors.New(*made.Error)
	case made.State == api.RedriveCancelled:
		return fmt.Errorf("%s was stopped", made.ID)
	case made.Refused > 0:
		return cli.ErrReported
	}
	return nil
}

// refusals are why jobs stayed as they were.
func refusals(b api.Bulk) string {
	var all []string
	for _, code := range slices.Sorted(maps.Keys(b.Refusals)) {
		all = append(all, fmt.Sprintf("%s %d", code, b.Refusals[code]))
	}
	if len(all) == 0 {
		return ""
	}
	return " (" + strings.Join(all, ", ") + ")"
}

func bulks(t *cli.Table, all []api.Bulk) {
	t.Head("ID", "ACTION", "STATE", "DONE", "MATCHED", cli.Minor("REFUSED"), cli.Minor("CREATED"), cli.Long("WAITING"))
	for _, b := range all {
		t.Row(b.ID, b.Action, b.State, b.Done, counted(api.Matched{Matched: b.Matched, MatchedCapped: b.MatchedCapped}), b.Refused, b.CreatedAt, cli.OrElse(b.Waiting, ""))
	}
}

func oneBulk(t *cli.Table, b api.Bulk) {
	t.Pair("id", b.ID)
	t.Pair("action", b.Action)
	t.Pair("state", b.State)
	t.Pair("matched", counted(api.Matched{Matched: b.Matched, MatchedCapped: b.MatchedCapped}))
	t.Pair("done", fmt.Sprint(b.Done))
	t.Pair("refused", fmt.Sprint(b.Refused)+refusals(b))
	if b.RatePerSecond != nil {
		t.Pair("rate", fmt.Sprintf("%g a second", *b.RatePerSecond))
	}
	t.Pair("waiting", cli.OrElse(b.Waiting, ""))
	t.Pair("error", cli.OrElse(b.Error, ""))
	t.Pair("created", b.CreatedAt)
	t.Pair("ended", b.EndedAt)
}
