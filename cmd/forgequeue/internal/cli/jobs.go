package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) jobs() *cobra.Command {
	var page paging
	var filter api.JobFilter
	var metadata []string
	after, before := instant{back: true}, instant{back: true}
	command := &cobra.Command{
		Use:   "jobs",
		Short: "List jobs, newest first",
		Example: `  forgequeue jobs --state queued,running --queue nightly
  forgequeue jobs --type mail --metadata shop=berlin --created-after 2h -o json`,
		Args: cobra.NoArgs,
		RunE: a.asTenant(func(ctx context.Context, s *session, _ []string) error {
			var err error
			if filter.Metadata, err = pairs("metadata", metadata); err != nil {
				return err
			}
			filter.CreatedAfter, filter.CreatedBefore = after.at, before.at
			list, err := collect(page, func(p client.PageRequest) (api.Page[api.JobSummary], error) {
				return s.client.List(ctx, filter, p)
			})
			if err != nil {
				return err
			}
			return showPage(s, list, func(t *table) { summaries(t, list.Items...) })
		}),
	}
	flags := command.Flags()
	flags.StringVarP(&filter.Queue, "queue", "q", "", "of this queue")
	flags.StringVar(&filter.Type, "type", "", "of this type")
	flags.StringSliceVar(&filter.States, "state", nil, "in one of these states, such as queued,running")
	flags.StringVar(&filter.Tag, "tag", "", "with this tag")
	flags.StringVar(&filter.User, "user", "", "of this user")
	flags.StringArrayVar(&metadata, "metadata", nil, "with this NAME=VALUE; repeatable")
	flags.Var(&after, "created-after", "made after this time, or within this long, such as 2h")
	flags.Var(&before, "created-before", "made before this time, or longer ago than this")
	page.flags(command)
	_ = command.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]cobra.Completion{
		api.StateBlocked, api.StateScheduled, api.StateQueued, api.StateRunning, api.StateCompleted, api.StateDeadLetter, api.StateCancelled,
	}, cobra.ShellCompDirectiveNoFileComp)) // fails only for a flag that is not there
	return command
}

// summaries is a table of jobs; ids are whole, to be copied.
func summaries(t *table, jobs ...api.JobSummary) {
	t.row("ID", coloured{"STATE", plain}, "TYPE", "QUEUE", "PRIORITY", "ATTEMPT", "RUN AT", "CREATED", "USER", "LAST ERROR")
	for _, job := range jobs {
		text := ""
		if job.LastError != nil {
			text = brief(job.LastError.Type + ": " + job.LastError.Message)
		}
		t.row(job.ID, state(job.State), job.Type, job.Queue, job.Priority, fmt.Sprintf("%d/%d", job.Attempt, job.MaxAttempts),
			stamp(job.RunAt), stamp(&job.CreatedAt), orNone(job.User), text)
	}
}

func state(name string) coloured {
	colours := map[string]colour{
		api.StateCompleted: green, api.StateRunning: blue, api.StateDeadLetter: red,
		api.StateScheduled: yellow, api.StateBlocked: yellow,
	}
	c, ok := colours[name]
	if !ok {
		c = plain
	}
	return coloured{name, c}
}

// describe is all of a job, a line for each thing that there is to say.
func describe(t *table, job api.Job) {
	t.pair("id", job.ID)
	t.row("state", state(job.State))
	t.pair("type", job.Type)
	t.pair("queue", job.Queue)
	t.pair("priority", fmt.Sprint(job.Priority))
	t.pair("attempt", fmt.Sprintf("%d of %d", job.Attempt, job.MaxAttempts))
	t.pair("epoch", fmt.Sprintf("%d (times it was given to a worker)", job.Epoch))
	if job.Redrives > 0 {
		t.pair("redrives", fmt.Sprint(job.Redrives))
	}
	t.pair("user", orNone(job.User))
	t.pair("tags", strings.Join(job.Tags, ", "))
	for _, name := range slices.Sorted(maps.Keys(job.Metadata)) {
		t.pair("metadata", name+"="+job.Metadata[name])
	}
	t.pair("dedupe key", orNone(job.DedupeKey))
	t.pair("correlation id", orNone(job.CorrelationID))
	t.pair("created", stamp(&job.CreatedAt))
	t.pair("run at", stamp(job.RunAt))
	t.pair("started", stamp(job.StartedAt))
	t.pair("finished", stamp(job.FinishedAt))
	t.pair("deadline", stamp(job.Deadline))
	if job.TimeoutMS != nil {
		t.pair("timeout", milliseconds(*job.TimeoutMS))
	}
	t.pair("worker", orNone(job.WorkerID))
	t.pair("lease expires", stamp(job.LeaseExpiresAt))
	if job.CancelRequested {
		t.pair("cancel", "asked for")
	}
	t.pair("dead because", orNone(job.DeadReason))
	t.pair(lastError(job.LastError))
	t.pair("payload", raw(job.Payload))
	t.pair("result", raw(job.Result))
}

// lastError tells a snooze, which costs no attempt, from a failure.
func lastError(e *api.JobError) (name, text string) {
	switch {
	case e == nil:
		return "", ""
	case e.Type == "snoozed" || e.Type == "no_handler":
		return "snoozed because", e.Message
	}
	return "last error", e.Type + ": " + e.Message
}

func raw(text json.RawMessage) string {
	if string(text) == "null" {
		return ""
	}
	return string(text)
}

// stampLayout is a time that the flags take again.
const stampLayout = time.RFC3339

func stamp(at *api.Time) string {
	if at == nil {
		return ""
	}
	return at.UTC().Format(stampLayout)
}

func milliseconds(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

func orNone(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// brief is the first line of a text, cut so that a row stays a row.
func brief(text string) string {
	const most = 80
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
