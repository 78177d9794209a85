package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newJobs(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "job",
		Aliases: []string{"jobs"},
		Short:   "List jobs; get, watch, signal, change, cancel, rerun or delete one, or read its logs",
		Example: `  forgequeue job --state queued,running --queue nightly
  forgequeue job get 0199f0a4-7c1e-7000-8000-5d2c6f1e9a10`,
		Args: cobra.NoArgs,
	}
	list := newJobsList(a)
	command.Flags().AddFlagSet(list.Flags()) // `job` alone is the list
	command.RunE = list.RunE
	completeStates(command)
	command.AddCommand(
		list, newJobGet(a), newJobWatch(a), newJobLogs(a), newJobWhy(a), newJobSignal(a), newJobSignalLink(a), newJobCancel(a),
		cli.ListOf(a.AsTenant, "attempts ID", "List a job's attempts and how each ended", (*client.Client).Attempts, attempts),
		newJobParents(a), newJobChange(a), newJobRedrive(a), newJobRerun(a), newJobDelete(a),
	)
	return command
}

func newJobsList(a *cli.App) *cobra.Command {
	var page cli.Paging
	var filter api.JobFilter
	var metadata []string
	after, before := cli.Instant{Back: true}, cli.Instant{Back: true}
	command := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest first",
		Example: `  forgequeue job list --state queued,running --queue nightly
  forgequeue job list --type mail --metadata shop=berlin --created-after 2h -o json`,
		Args: cobra.NoArgs,
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, _ []string) error {
			var err error
			if filter.Metadata, err = pairs(metadata); err != nil {
				return err
			}
			filter.CreatedAfter, filter.CreatedBefore = after.At, before.At
			return cli.ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[api.JobSummary], error) {
				return s.Client.List(ctx, filter, p)
			}, summaries)
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&filter.Queue, "queue", "q", "", "of this queue")
	flags.StringVar(&filter.Type, "type", "", "of this type")
	flags.StringSliceVar(&filter.States, "state", nil, "in one of these states, such as queued,running")
	flags.StringVar(&filter.Tag, "tag", "", "with this tag")
	flags.StringVar(&filter.User, "user", "", "of this user")
	flags.StringVar(&filter.DedupeKey, "dedupe-key", "", "with this deduplication key")
	flags.StringVar(&filter.Key, "key", "", "of this key")
	flags.StringArrayVar(&metadata, "metadata", nil, "with this NAME=VALUE; repeatable")
	flags.Var(&after, "created-after", "made after this time, or within this long, such as 2h")
	flags.Var(&before, "created-before", "made before this time, or longer ago than this")
	page.Flags(command)
	completeStates(command)
	return command
}

// completeStates completes the values of --state.
func completeStates(command *cobra.Command) {
	_ = command.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]cobra.Completion{
		api.StateBlocked, api.StateScheduled, api.StateWaiting, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
	}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that does not exist
}

// summaries writes a table of jobs. Ids are not shortened, so that they can be copied.
func summaries(t *cli.Table, jobs []api.JobSummary) {
	t.Head("ID", "STATE", "TYPE", cli.Minor("QUEUE"), cli.Least("PRIORITY"), cli.Minor("ATTEMPT"), cli.Least("RUN AT"), cli.Minor("CREATED"), cli.Least("USER"), cli.Long("LAST ERROR"))
	for _, job := range jobs {
		text := ""
		if job.LastError != nil && job.State != api.StateCompleted {
			text = cli.Brief(job.LastError.Type + ": " + job.LastError.Message)
		}
		t.Row(job.ID, state(job.State), job.Type, job.Queue, job.Priority, fmt.Sprintf("%d/%d", job.Attempt, job.MaxAttempts),
			job.RunAt, job.CreatedAt, cli.OrElse(job.User, ""), text)
	}
}

func state(name string) cli.Cell { return cli.Coloured(name, cli.StateColour(name)) }

// describe writes a whole job, a line for each field that has a value.
func describe(t *cli.Table, job api.Job) {
	t.Pair("id", job.ID)
	t.Pair("state", state(job.State))
	t.Pair("type", job.Type)
	t.Pair("queue", job.Queue)
	t.Pair("priority", fmt.Sprint(job.Priority))
	t.Pair("attempt", fmt.Sprintf("%d of %d", job.Attempt, job.MaxAttempts))
	t.Pair("epoch", fmt.Sprintf("%d (times it was given to a worker)", job.Epoch))
	if job.Redrives > 0 {
		t.Pair("redrives", fmt.Sprint(job.Redrives))
	}
	if job.Workflow != nil {
		t.Pair("workflow", fmt.Sprintf("%s (as %s)", job.Workflow.ID, job.Workflow.Ref))
	}
	for _, parent := range job.After {
		t.Pair("after", fmt.Sprintf("%s (%s; on failure %s)", named(parent.Ref, parent.JobID), parent.State, parent.OnFailed))
	}
	if job.BlockedBy != nil {
		t.Pair("blocked by", fmt.Sprintf("%d jobs", *job.BlockedBy))
	}
	t.Pair("waiting for", strings.Join(job.WaitingFor, ", "))
	t.Pair("wait until", job.WaitUntil)
	t.Pair("rerun of", cli.OrElse(job.RerunOf, ""))
	t.Pair("user", cli.OrElse(job.User, ""))
	t.Pair("tags", strings.Join(job.Tags, ", "))
	for _, name := range slices.Sorted(maps.Keys(job.Metadata)) {
		t.Pair("metadata", name+"="+job.Metadata[name])
	}
	t.Pair("key", cli.OrElse(job.Key, ""))
	if job.KeyWeight != nil {
		t.Pair("key weight", fmt.Sprint(*job.KeyWeight))
	}
	t.Pair("costs", strings.Join(cli.AmountTexts(job.Costs), ", "))
	t.Pair("dedupe key", cli.OrElse(job.DedupeKey, ""))
	t.Pair("correlation id", cli.OrElse(job.CorrelationID, ""))
	t.Pair("created", job.CreatedAt)
	t.Pair("run at", job.RunAt)
	t.Pair("started", job.StartedAt)
	t.Pair("finished", job.FinishedAt)
	t.Pair("deadline", job.Deadline)
	if job.TimeoutMS != nil {
		t.Pair("timeout", cli.Milliseconds(*job.TimeoutMS))
	}
	t.Pair("progress", reported(job.Progress))
	t.Pair("checkpoint", raw(job.Checkpoint))
	t.Pair("worker", cli.OrElse(job.WorkerID, ""))
	t.Pair("lease expires", job.LeaseExpiresAt)
	if job.CancelRequested {
		t.Pair("cancel", "asked for")
	}
	t.Pair("dead because", cli.OrElse(job.DeadReason, ""))
	t.Pair(lastError(job.LastError))
	t.Pair("payload", raw(job.Payload))
	t.Pair("result", raw(job.Result))
}

// named is a job's id, after its ref where it has one.
func named(ref *string, id string) string {
	if ref == nil {
		return id
	}
	return *ref + " " + id
}

// lastError distinguishes a snooze, which costs no attempt, from a failure.
func lastError(e *api.JobError) (name, text string) {
	switch {
	case e == nil:
		return "", ""
	case e.Type == "snoozed" || e.Type == "no_handler":
		return "snoozed because", e.Message
	}
	return "last error", e.Type + ": " + e.Message
}

// failure is an error for a column of a table.
func failure(e *api.JobError) string {
	if e == nil {
		return ""
	}
	return cli.Brief(e.Type + ": " + e.Message)
}

func raw(text json.RawMessage) string {
	if string(text) == "null" {
		return ""
	}
	return string(text)
}
