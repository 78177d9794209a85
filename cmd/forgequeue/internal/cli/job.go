package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) job() *cobra.Command {
	command := &cobra.Command{
		Use:   "job",
		Short: "Look at one job, watch it, cancel or redrive it",
	}
	command.AddCommand(a.jobGet(), a.jobWatch(), a.jobCancel(), a.jobAttempts(), a.jobRedrive())
	return command
}

func (a *App) jobGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get ID",
		Short:   "Show a job: its state, payload, result and last error",
		Example: "  forgequeue job get 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 -o json",
		Args:    one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			job, err := s.client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(job, func(t *table) { describe(t, job) })
		}),
	}
}

func (a *App) jobWatch() *cobra.Command {
	var limit time.Duration
	command := &cobra.Command{
		Use:   "watch ID",
		Short: "Follow a job to its end, a line for each change that is seen",
		Long: `Follow a job to its end. A line is written when its state or attempt has changed; it is looked at once a
second, so that what passes more quickly is not seen (job attempts has all of it). With -o json each line is
the job as JSON. Exit code: 0 completed, 1 dead letter or cancelled, 4 when --timeout passed first.`,
		Example: "  forgequeue job watch 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 --timeout 5m",
		Args:    one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			// The first look tells at once that there is no such job.
			job, err := s.client.Get(ctx, args[0])
			if err != nil {
				return err
			}
			lines := &changes{screen: s.screen}
			if err := lines.see(job); err != nil {
				return err
			}
			if job, err = s.await(ctx, args[0], limit, lines); err != nil {
				return err
			}
			return outcome(job)
		}),
	}
	command.Flags().DurationVar(&limit, "timeout", 0, "watch for at most this long (default: for ever)")
	return command
}

// changes writes a line each time a job is not as it was.
type changes struct {
	*screen
	last string
}

func (c *changes) see(job api.Job) error {
	now := fmt.Sprint(progressOf(job), job.Redrives)
	if now == c.last {
		return nil
	}
	c.last = now
	if c.json {
		return c.writeJSON(job, "")
	}
	text := progressOf(job)
	if job.State != api.StateCompleted && job.LastError != nil {
		text += "; last error: " + brief(job.LastError.Type+": "+job.LastError.Message)
	}
	_, err := fmt.Fprintf(c.out, "%s  %s\n", time.Now().UTC().Format(stampLayout), visible(text))
	return err
}

func (*changes) end() {}

func (a *App) jobCancel() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a job that waits; ask one that runs to stop",
		Long: `Cancel a job. One that waits ends at once. One that runs is asked to stop: its worker is told by the next
heartbeat, and if it completes all the same, the job is completed. A repeat changes nothing.`,
		Args: one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			job, err := s.client.Cancel(ctx, args[0])
			if err != nil {
				return err
			}
			if job.State == api.StateRunning {
				s.note("The job runs; its worker is asked to stop. `forgequeue job watch %s` shows when it has.", job.ID)
			}
			return s.show(job, func(t *table) { summaries(t, job) })
		}),
	}
}

func (a *App) jobAttempts() *cobra.Command {
	var page paging
	command := &cobra.Command{
		Use:   "attempts ID",
		Short: "List a job's attempts, and how each ended",
		Args:  one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			list, err := collect(page, func(p client.PageRequest) (api.Page[api.Attempt], error) {
				return s.client.Attempts(ctx, args[0], p)
			})
			if err != nil {
				return err
			}
			return showPage(s, list, func(t *table) { attempts(t, list.Items) })
		}),
	}
	page.flags(command)
	return command
}

func attempts(t *table, all []api.Attempt) {
	t.row("ATTEMPT", "EPOCH", "ENDED AS", "STARTED", "ENDED", "WORKER", "ERROR")
	for _, one := range all {
		text := ""
		if one.Error != nil {
			text = brief(one.Error.Type + ": " + one.Error.Message)
		}
		t.row(one.Attempt, one.Epoch, one.Kind, stamp(one.StartedAt), stamp(one.EndedAt), orNone(one.WorkerID), text)
	}
}

func (a *App) jobRedrive() *cobra.Command {
	return &cobra.Command{
		Use:   "redrive ID",
		Short: "Queue a dead letter again, its attempts anew",
		Args:  one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			job, err := s.client.Redrive(ctx, args[0])
			if err != nil {
				if noAnswer(err) && !interrupted(ctx) {
					return errors.Join(err, errors.New("  Whether the job was queued again is not known; look before you repeat it: forgequeue job get "+args[0]))
				}
				return err
			}
			return s.show(job, func(t *table) { summaries(t, job) })
		}),
	}
}
