package cli

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func (a *App) queues() *cobra.Command {
	command := &cobra.Command{
		Use:     "queues",
		Aliases: []string{"queue"},
		Short:   "List queues with their depths, set, pause and resume them",
		Args:    cobra.NoArgs,
	}
	list := a.queuesList()
	command.Flags().AddFlagSet(list.Flags()) // `queues` alone is the list
	command.RunE = list.RunE
	command.AddCommand(list, a.queuesGet(), a.queuesSet(),
		a.queueSwitch("pause", "Stop the claims from a queue; what runs goes on", (*client.Client).PauseQueue),
		a.queueSwitch("resume", "Let a paused queue be claimed from again", (*client.Client).ResumeQueue))
	return command
}

func (a *App) queuesList() *cobra.Command {
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List queues: what waits and runs in each, and who serves it",
		Args:  cobra.NoArgs,
		RunE: a.asTenant(func(ctx context.Context, s *session, _ []string) error {
			list, err := collect(page, func(p client.PageRequest) (api.Page[api.Queue], error) { return s.client.Queues(ctx, p) })
			if err != nil {
				return err
			}
			return showPage(s, list, func(t *table) { queues(t, list.Items) })
		}),
	}
	page.flags(command)
	return command
}

func queues(t *table, all []api.Queue) {
	t.row("NAME", "MODE", coloured{"STATE", plain}, "QUEUED", "RUNNING", "SCHEDULED", "BLOCKED", "DEAD", "OLDEST", "WORKERS", "UNSERVED TAGS")
	for _, q := range all {
		depth := depths(q)
		t.row(q.Name, q.Mode, queueState(q), depth("queued", q.Depth.Queued), depth("running", q.Depth.Running),
			depth("scheduled", q.Depth.Scheduled), depth("blocked", q.Depth.Blocked), depth("dead_letter", q.Depth.DeadLetter),
			oldest(q), q.ActiveWorkers, unserved(q))
	}
}

// depths writes a depth; one that stopped counting has a + behind it.
func depths(q api.Queue) func(name string, depth int64) string {
	return func(name string, depth int64) string {
		if slices.Contains(q.DepthCapped, name) {
			return strconv.FormatInt(depth, 10) + "+"
		}
		return strconv.FormatInt(depth, 10)
	}
}

func queueState(q api.Queue) coloured {
	switch {
	case q.Paused:
		return coloured{"paused", yellow}
	case q.Breaker != nil && q.Breaker.State != api.BreakerClosed:
		return coloured{"breaker " + q.Breaker.State, red}
	case q.Mode == api.ModePull && q.ActiveWorkers == 0 && q.Depth.Queued > 0:
		return coloured{"no worker", red}
	}
	return coloured{"open", green}
}

func oldest(q api.Queue) string {
	if q.OldestQueuedMS == nil {
		return ""
	}
	return (time.Duration(*q.OldestQueuedMS) * time.Millisecond).Round(time.Second).String()
}

func unserved(q api.Queue) string {
	sets := make([]string, len(q.Unserved))
	for i, set := range q.Unserved {
		sets[i] = strings.Join(set.Tags, "+")
	}
	return strings.Join(sets, " ")
}

func (a *App) queuesGet() *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue: depths, workers and settings",
		Args:  one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			q, err := s.client.Queue(ctx, args[0])
			if isNotFound(err) {
				return fmt.Errorf("there is no queue %s; its first job makes it, or forgequeue queues set %[1]s", args[0])
			}
			if err != nil {
				return err
			}
			return s.show(q, func(t *table) { describeQueue(t, q) })
		}),
	}
}

func describeQueue(t *table, q api.Queue) {
	depth := depths(q)
	t.pair("name", q.Name)
	t.pair("mode", q.Mode)
	t.row("state", queueState(q))
	t.pair("queued", depth("queued", q.Depth.Queued))
	t.pair("running", depth("running", q.Depth.Running))
	t.pair("scheduled", depth("scheduled", q.Depth.Scheduled))
	t.pair("blocked", depth("blocked", q.Depth.Blocked))
	t.pair("dead letters", depth("dead_letter", q.Depth.DeadLetter))
	t.pair("oldest queued", oldest(q))
	t.pair("active workers", strconv.Itoa(q.ActiveWorkers))
	t.pair("unserved tags", unserved(q))
	t.pair("visibility timeout", milliseconds(q.Settings.VisibilityTimeoutMS))
	t.pair("max attempts", strconv.Itoa(q.Settings.MaxAttempts))
	t.pair("retry", retryOf(q.Settings.Retry))
	t.pair("max active", number(q.Settings.MaxActive))
	t.pair("max running", number(q.Settings.MaxRunning))
	t.pair("rate per second", number(q.Settings.RatePerSecond))
	describePush(t, q)
}

// number is a limit; absent is "none".
func number[T int64 | float64](limit *T) string {
	if limit == nil {
		return "none"
	}
	return fmt.Sprint(*limit)
}

func (a *App) queueSwitch(use, short string, turn func(*client.Client, context.Context, string) (api.Queue, error)) *cobra.Command {
	return &cobra.Command{
		Use:   use + " NAME",
		Short: short,
		Args:  one(),
		RunE: a.asTenant(func(ctx context.Context, s *session, args []string) error {
			q, err := turn(s.client, ctx, args[0])
			if err != nil {
				return err
			}
			return s.show(q, func(t *table) { queues(t, []api.Queue{q}) })
		}),
	}
}

// isNotFound says that what was asked for is not there.
func isNotFound(err error) bool { return client.Status(err) == http.StatusNotFound }
