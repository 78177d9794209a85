package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/wait"
)

// redrivePollEvery is how often follow reads a redrive.
const redrivePollEvery = 300 * time.Millisecond

func newRedrives(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "redrive",
		Aliases: []string{"redrives"},
		Short:   "Redrives and discards by filter: list, get, watch, cancel",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List redrives and discards by filter, newest first", (*client.Client).Redrives, redrives)
	command.Flags().AddFlagSet(list.Flags()) // `redrive` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list,
		cli.Call(a.AsTenant, "get ID", "Show the progress of a redrive or a discard", (*client.Client).GetRedrive, oneRedrive),
		newRedrivesWatch(a),
		cli.Call(a.AsTenant, "cancel ID", "Cancel a redrive or a discard; processed jobs are not reverted", (*client.Client).CancelRedrive, oneRedrive),
	)
	return command
}

func redrives(t *cli.Table, all []api.Redrive) {
	t.Head("ID", cli.Minor("ACTION"), "STATE", "DONE", "MATCHED", cli.Minor("REFUSED"), cli.Minor("CREATED"), cli.Long("WAITING"))
	for _, r := range all {
		t.Row(r.ID, r.Action, r.State, r.Done, matched(r), r.Refused, r.CreatedAt, cli.OrElse(r.Waiting, ""))
	}
}

func newRedrivesWatch(a *cli.App) *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{Use: "watch ID", Short: "Wait until a redrive or a discard ends", Args: cli.One()}
	waitFlag(command, &limit)
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		r, err := s.Client.GetRedrive(ctx, args[0])
		if err != nil {
			return err
		}
		return follow(ctx, s, r, limit)
	})
	return command
}

func matched(r api.Redrive) string {
	return counted(api.Matched{Matched: r.Matched, MatchedCapped: r.MatchedCapped})
}

func oneRedrive(t *cli.Table, r api.Redrive) {
	t.Pair("id", r.ID)
	t.Pair("action", r.Action)
	t.Pair("state", r.State)
	t.Pair("matched", matched(r))
	t.Pair("done", fmt.Sprint(r.Done))
	t.Pair("refused", fmt.Sprint(r.Refused))
	if r.RatePerSecond != nil {
		t.Pair("rate", fmt.Sprintf("%g a second", *r.RatePerSecond))
	}
	if r.Canary != nil {
		t.Pair("canary", canaryLine(r.Canary))
		t.Pair("reason", cli.OrElse(r.Canary.Reason, ""))
	}
	t.Pair("waiting", cli.OrElse(r.Waiting, ""))
	t.Pair("error", cli.OrElse(r.Error, ""))
	t.Pair("created", r.CreatedAt)
	t.Pair("ended", r.EndedAt)
}

// waitFlag adds --wait-timeout.
func waitFlag(command *cobra.Command, limit *time.Duration) {
	command.Flags().DurationVar(limit, "wait-timeout", 0, "wait for at most this long (default: without end)")
}

// follow shows the progress of a redrive until it ends, for at most limit (0: without end). The server continues if this
// is interrupted.
func follow(ctx context.Context, s *cli.Session, r api.Redrive, limit time.Duration) error {
	if limit < 0 {
		return cli.Usage("--wait-timeout must not be negative")
	}
	caller := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	bar, end := s.Progress(int(max(r.Matched, 1)), true, r.Action)
	waiting, sample := false, ""
	for r.State == api.RedriveRunning {
		if bar != nil {
			_ = bar.Set64(r.Done) // a failed write to a terminal changes nothing
		}
		if r.Canary != nil && r.Canary.State != sample {
			sample = r.Canary.State
			if text := canaryNote(r); text != "" {
				s.Note("%s: %s", r.ID, text)
			}
		}
		if now := r.Waiting != nil; now != waiting {
			if waiting = now; now {
				s.Note("%s: a cap on active jobs is full; it continues when jobs have ended", r.ID)
			}
		}
		if err := wait.For(ctx, redrivePollEvery); err != nil {
			end()
			s.Note("%s continues: forgequeue redrive watch %[1]s, or cancel", r.ID)
			if caller.Err() == nil {
				return cli.TimedOut(fmt.Errorf("%s has not ended within %v: %d are done", r.ID, limit, r.Done))
			}
			return err
		}
		now, err := s.Client.GetRedrive(ctx, r.ID)
		if err != nil && ctx.Err() == nil {
			end()
			s.Note("%s continues: forgequeue redrive watch %[1]s, or cancel", r.ID)
			return err
		}
		if err == nil {
			r = now
		}
	}
	end()
	return reportRedrive(s, r)
}

// reportRedrive writes how a redrive ended.
func reportRedrive(s *cli.Session, r api.Redrive) error {
	done := "queued again"
	if r.Action == api.ActionDiscard {
		done = "discarded"
	}
	if err := s.Show(r, func(t *cli.Table) { t.Row(fmt.Sprintf("%d %s, %d refused", r.Done, done, r.Refused)) }); err != nil {
		return err
	}
	switch {
	case r.State == api.RedriveStopped && r.Canary != nil && r.Canary.Reason != nil:
		return fmt.Errorf("stopped after its sample, the others stay dead letters. %s", *r.Canary.Reason)
	case r.State == api.RedriveFailed && r.Error != nil:
		return errors.New(*r.Error)
	case r.State == api.RedriveCancelled:
		return fmt.Errorf("%s was cancelled", r.ID)
	case r.Refused > 0:
		s.Note("%d stay dead: live jobs have their dedupe_key", r.Refused)
		return cli.ErrReported
	}
	return nil
}
