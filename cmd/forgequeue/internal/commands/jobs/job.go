package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newJobGet(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show a job: its state, payload, result and last error",
		Example: "  forgequeue job get 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 -o json",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			job, etag, err := s.Client.GetWithETag(ctx, args[0])
			if err != nil {
				return err
			}
			return s.Show(job, func(t *cli.Table) {
				describe(t, job)
				t.Pair("etag", strings.Trim(etag, `"`))
			})
		}),
	}
}

func newJobWatch(a *cli.App) *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job until it ends, with a line for each change",
		Long: `Follow a job to its end. A line is written when its state, attempt or progress has changed; changes
that follow each other within milliseconds may be one line (job attempts has all of them). On a terminal the last lines that
the job has written come below (job logs has all of them). With -o json each line is the job as JSON. Exit code: 0 completed, 1 dead letter or cancelled, 4 when --wait-timeout passed first.`,
		Example: "  forgequeue job watch 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --wait-timeout 5m",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			// A job that does not exist is an error at once.
			job, err := s.Client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			lines := &changes{Screen: s.Screen}
			if s.OnTerminal() {
				lines.tail = &tail{parts: map[string]string{}}
			}
			if err := lines.see(job); err != nil {
				return err
			}
			if job, err = watch(ctx, s, args[0], limit, lines); err != nil {
				return err
			}
			return outcome(job)
		}),
	}
	waitFlag(command, &limit)
	return command
}

// changes writes a line each time a job's state, attempt or progress has changed.
type changes struct {
	*cli.Screen
	last string
	// tail are the lines that the job has written; nil: they are not shown.
	tail *tail
}

func (c *changes) see(job api.Job) error {
	now := fmt.Sprint(progressOf(job), job.Redrives)
	if now != c.last {
		c.last = now
		if err := c.write(job); err != nil {
			return err
		}
	}
	if c.tail == nil {
		return nil
	}
	return c.tail.show(c.Screen, job.ID, hasEnded(job))
}

func (c *changes) write(job api.Job) error {
	if c.JSON {
		return c.WriteJSON(job, "")
	}
	text := progressOf(job)
	if job.State != api.StateCompleted && job.LastError != nil {
		text += "; last error: " + cli.Brief(job.LastError.Type+": "+job.LastError.Message)
	}
	_, err := fmt.Fprintf(c.Out, "%s  %s\n", time.Now().UTC().Format(cli.StampLayout), cli.Visible(text))
	return err
}

// said takes in what the job has written; it is shown with the next change.
func (c *changes) said(piece *api.Output) {
	if c.tail != nil {
		c.tail.add(piece.Stream, piece.Text)
	}
}

func (*changes) end() {}

func newJobCancel(a *cli.App) *cobra.Command {
	var o many
	command := &cobra.Command{
		Use:   "cancel [ID]",
		Short: "Cancel a waiting job, or all that match a filter; request that running ones stop",
		Long: `Cancel a job, or without ID all that match the flags, as "forgequeue bulk cancel" does. One that waits ends at once. One that
runs is asked to stop: its worker learns it from the next heartbeat; if it completes the job anyway, the job is completed. A
repeat changes nothing.`,
		Example: `  forgequeue job cancel 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10
  forgequeue job cancel --queue nightly --state queued --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			if len(args) == 0 {
				return o.run(ctx, s, api.BulkRequest{Action: api.BulkCancel})
			}
			if o.given() || o.all {
				return cli.Usage("an id and a filter do not go together; give one of them")
			}
			job, err := s.Client.Cancel(ctx, args[0])
			if err != nil {
				return err
			}
			if job.State == api.StateRunning {
				s.Note("The job runs; its worker is asked to stop. `forgequeue job watch %s` shows when it has.", job.ID)
			}
			return s.Show(job, func(t *cli.Table) { summaries(t, []api.JobSummary{job}) })
		}),
	}
	o.flags(command.Flags())
	completeStates(command)
	return command
}

func attempts(t *cli.Table, all []api.Attempt) {
	t.Head("ATTEMPT", cli.Least("EPOCH"), "ENDED AS", "STARTED", cli.Least("ENDED"), cli.Minor("WORKER"), cli.Long("ERROR"))
	for _, one := range all {
		t.Row(one.Attempt, one.Epoch, one.Kind, one.StartedAt, one.EndedAt, cli.OrElse(one.WorkerID, ""), failure(one.Error))
	}
}

func newJobWhy(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "why ID",
		Short: "Explain why a job waits",
		Long: `List all that keeps a job from starting now, and what ends it: its time, its parents, a signal, a paused queue, a cap, a rate,
no worker, tags, an open circuit breaker. A job that is ready is in line: ahead are the jobs of the same queue, type and tags
that are claimed before it. If its drain is known, the last line says when the job is likely to start.`,
		Example: `  forgequeue job why "$ID"`,
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			made, err := s.Client.Explain(ctx, args[0])
			if err != nil {
				return err
			}
			return s.Show(made, func(t *cli.Table) { why(t, &made) })
		}),
	}
}

func why(t *cli.Table, made *api.Explanation) {
	t.Pair("state", state(made.State))
	for _, reason := range made.Because {
		text := reason.Detail + " Ends when: " + reason.Frees
		if reason.Until != nil {
			text += " Until: " + cli.Stamp(reason.Until) + "."
		}
		t.Pair(reason.Code, text)
	}
	if made.Estimate != nil {
		t.Pair("starts", likely(made))
	}
}

// likely is an estimate in a sentence.
func likely(made *api.Explanation) string {
	ahead := ""
	if made.Ahead != nil {
		ahead = fmt.Sprintf(": %d jobs ahead", made.Ahead.Count)
	}
	in := time.Duration(made.Estimate.StartsInMS) * time.Millisecond
	return fmt.Sprintf("In about %s%s; %v a second start.", cli.About(in), ahead, made.Estimate.DrainPerSecond)
}

func newJobParents(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "parents ID",
		Short: "List a job's parents, with their results",
		Long: `List the jobs that a job came after, with the results of those that completed. Jobs past their retention are not
listed. A key that has only the scope work may do this while the job runs under its lease.`,
		Example: `  forgequeue job parents "$FORGEQUEUE_JOB_ID" -o json | jq '.items[0].result'`,
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			return cli.ShowList(ctx, s, cli.Paging{}, func(ctx context.Context, p client.PageRequest) (api.Page[api.JobParent], error) {
				return s.Client.Parents(ctx, args[0], p)
			}, parents)
		}),
	}
}

func parents(t *cli.Table, all []api.JobParent) {
	t.Head("REF", "ID", "STATE", cli.Long("RESULT"))
	for _, one := range all {
		t.Row(cli.OrElse(one.Ref, ""), one.JobID, state(one.State), cli.Brief(raw(one.Result)))
	}
}

func newJobRedrive(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "redrive ID",
		Short: "Queue a dead letter again, with a new set of attempts",
		Args:  cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			job, err := s.Client.Redrive(ctx, args[0])
			if err != nil {
				if cli.NoAnswer(err) && !cli.Interrupted(ctx) {
					return errors.Join(err, errors.New("  Whether the job was queued again is not known; look before you repeat it: forgequeue job get "+args[0]))
				}
				return err
			}
			return s.Show(job, func(t *cli.Table) { summaries(t, []api.JobSummary{job}) })
		}),
	}
}
