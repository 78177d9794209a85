package workflows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newGet(a *cli.App) *cobra.Command {
	var w waiting
	var all bool
	command := &cobra.Command{
		Use:   "get ID",
		Short: "Draw a workflow: its jobs, their dependencies and states",
		Long: `Draw a workflow from its first jobs at the top to its last. A line leads from each job to those that come after it.

  ✓ completed   ● running   ○ queued or scheduled   ◎ waiting   ◌ blocked   ✗ dead letter   ⊘ cancelled

More than 8 jobs of the same type with the same jobs before and after them are drawn as one. A graph that is larger
still is shown by its layers, with the first of its dead letters; --jobs lists every job.`,
		Example: `  forgequeue workflow get 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10
  forgequeue workflow get 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10 -o json | jq '.jobs[] | select(.state == "dead_letter") | .id'`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			if w.wanted() {
				return w.follow(ctx, s, args[0])
			}
			workflow, err := s.Client.GetWorkflow(ctx, args[0])
			if err != nil {
				return err
			}
			if all {
				return s.Show(workflow, func(t *cli.Table) { jobRows(t, workflow.Jobs) })
			}
			return show(s, workflow)
		}),
	}
	command.Flags().BoolVar(&all, "jobs", false, "list every job instead of the drawing")
	w.flags(command)
	return command
}

func newList(a *cli.App) *cobra.Command {
	var page cli.Paging
	var filter api.WorkflowFilter
	command := &cobra.Command{
		Use:     "list",
		Short:   "List workflows, newest first",
		Example: "  forgequeue workflow list --state failed --name report",
		Args:    cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			return cli.ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[api.Workflow], error) {
				return s.Client.Workflows(ctx, filter, p)
			}, rows)
		}),
	}
	command.Flags().StringVar(&filter.State, "state", "", "in this state: "+strings.Join(api.WorkflowStates(), ", "))
	command.Flags().StringVar(&filter.Name, "name", "", "of this name")
	page.Flags(command)
	_ = command.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(api.WorkflowStates(), cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
	return command
}

func rows(t *cli.Table, all []api.Workflow) {
	t.Head("ID", "STATE", cli.Long("NAME"), "ENDED", "JOBS", cli.Minor("DEAD"), cli.Minor("CREATED"), cli.Least("FINISHED"), cli.Least("USER"))
	for i := range all {
		one := &all[i]
		t.Row(one.ID, stateCell(one.State), one.Name, one.Counts.Ended(), one.Counts.Ended()+one.Counts.Live(), one.Counts.DeadLetter,
			one.CreatedAt, one.FinishedAt, cli.OrElse(one.User, ""))
	}
}

func jobRows(t *cli.Table, jobs []api.WorkflowJob) {
	t.Head("REF", "STATE", cli.Minor("TYPE"), "ID", cli.Minor("STARTED"), cli.Least("FINISHED"), cli.Long("AFTER"))
	for i := range jobs {
		var after []string
		for _, parent := range jobs[i].After {
			after = append(after, cli.OrElse(parent.Ref, parent.JobID))
		}
		t.Row(jobs[i].Ref, stateCell(jobs[i].State), jobs[i].Type, jobs[i].ID, jobs[i].StartedAt, jobs[i].FinishedAt,
			cli.Brief(strings.Join(after, ", ")))
	}
}

// show writes a workflow and its drawing.
func show(s *cli.Session, workflow api.WorkflowDetail) error {
	err := s.Show(workflow, func(t *cli.Table) {
		t.Pair("id", workflow.ID)
		t.Pair("state", stateCell(workflow.State))
		t.Pair("name", workflow.Name)
		t.Pair("jobs", counted(countsOf(workflow.Counts)))
		t.Pair("user", cli.OrElse(workflow.User, ""))
		for _, name := range slices.Sorted(maps.Keys(workflow.Metadata)) {
			t.Pair("metadata", name+"="+workflow.Metadata[name])
		}
		t.Pair("created", workflow.CreatedAt)
		t.Pair("finished", workflow.FinishedAt)
	})
	if err != nil || s.JSON {
		return err
	}
	_, err = io.WriteString(s.Out, "\n"+picture(&workflow, s.Width(), s.Paint))
	return err
}

// waiting is the flags of a command that can wait for a workflow's end.
type waiting struct {
	wait    bool
	timeout time.Duration
}

func (w *waiting) flags(command *cobra.Command) {
	command.Flags().BoolVar(&w.wait, "wait", false, "wait for the workflow's end; the exit code is its outcome")
	command.Flags().DurationVar(&w.timeout, "wait-timeout", 0, "wait for at most this long (default: without end)")
}

func (w *waiting) wanted() bool { return w.wait || w.timeout != 0 }

// follow waits for a workflow's end and shows it.
func (w *waiting) follow(ctx context.Context, s *cli.Session, id string) error {
	if w.timeout < 0 {
		return cli.Usage("the time to wait must not be negative")
	}
	limited := ctx
	if w.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	_, end := s.Progress(-1, false, "waiting for workflow "+id)
	last, err := s.Client.WaitForWorkflow(limited, id)
	end()
	switch {
	case err == nil:
	case cli.Interrupted(ctx):
		return fmt.Errorf("stopped waiting for workflow %s, which continues: %s", id, counted(countsOf(last.Counts)))
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		return cli.TimedOut(fmt.Errorf("workflow %s has not ended within %v and continues: %s", id, w.timeout, counted(countsOf(last.Counts))))
	default:
		return err
	}
	if err := show(s, last); err != nil {
		return err
	}
	if last.State != api.WorkflowCompleted {
		return fmt.Errorf("workflow %s ended as %s: %s", id, last.State, counted(countsOf(last.Counts)))
	}
	return nil
}
