package admin

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newQueues(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "List queues with their depths, set, pause, resume and delete them",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List queues with their depths and workers", (*client.Client).Queues, queues)
	command.Flags().AddFlagSet(list.Flags()) // `queue` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list, newQueuesGet(a), newQueuesKeys(a), newQueuesScale(a), newQueuesSet(a), newQueuesDelete(a),
		cli.Call(a.AsTenant, "pause NAME", "Stop the claims from a queue; running jobs continue", known((*client.Client).PauseQueue), cli.Row(queues)),
		cli.Call(a.AsTenant, "resume NAME", "Let workers claim from a paused queue again", known((*client.Client).ResumeQueue), cli.Row(queues)),
		cli.Call(a.AsTenant, "probe NAME", "Try the destination of a queue in push mode now, although its breaker is open", known((*client.Client).ProbeQueue), cli.Row(queues)),
	)
	return command
}

func newQueuesScale(a *cli.App) *cobra.Command {
	var target, cold time.Duration
	command := &cobra.Command{
		Use:     "scale NAME",
		Short:   "Show how many slots of workers a queue needs",
		Example: "  forgequeue queue scale default --target-wait 30s --cold-start 1m",
		Args:    cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			needs, err := s.Client.ScaleQueue(ctx, args[0], target, cold)
			if err != nil {
				return err
			}
			return s.Show(needs, func(t *cli.Table) {
				t.Pair("desired slots", strconv.FormatInt(needs.DesiredSlots, 10))
				t.Pair("running", strconv.FormatInt(needs.Running, 10))
				t.Pair("queued", strconv.FormatInt(needs.Queued, 10))
				t.Pair("because", needs.Because)
			})
		}),
	}
	command.Flags().DurationVar(&target, "target-wait", 0, "how long jobs may wait (default: 30s)")
	command.Flags().DurationVar(&cold, "cold-start", 0, "how long a worker takes to start")
	return command
}

func queues(t *cli.Table, all []api.Queue) {
	t.Head("NAME", cli.Least("MODE"), "STATE", "QUEUED", "RUNNING", cli.Minor("SCHEDULED"), cli.Least("WAITING"), cli.Least("BLOCKED"), "DEAD", cli.Minor("OLDEST"), cli.Minor("DRAIN/S"), cli.Minor("WAIT"), "WORKERS", cli.Long("UNSERVED"))
	for _, q := range all {
		depth := depths(q)
		t.Row(q.Name, q.Mode, queueState(q), depth("queued", q.Depth.Queued), depth("running", q.Depth.Running),
			depth("scheduled", q.Depth.Scheduled), depth("waiting", q.Depth.Waiting), depth("blocked", q.Depth.Blocked), depth("dead_letter", q.Depth.DeadLetter),
			oldest(q), drain(q), likelyWait(q), q.ActiveWorkers, unserved(q))
	}
}

// depths formats a depth, with a + if the server stopped counting there.
func depths(q api.Queue) func(name string, depth int64) string {
	return func(name string, depth int64) string {
		if slices.Contains(q.DepthCapped, name) {
			return strconv.FormatInt(depth, 10) + "+"
		}
		return strconv.FormatInt(depth, 10)
	}
}

func queueState(q api.Queue) cli.Cell {
	switch {
	case q.Paused:
		return cli.Coloured("paused", cli.Yellow)
	case q.WindowUntil != nil:
		return cli.Coloured("in a window", cli.Yellow)
	case q.Breaker != nil && q.Breaker.State != api.BreakerClosed:
		return cli.Coloured("breaker "+q.Breaker.State, cli.Red)
	case q.Settings.MaxRunning != nil && *q.Settings.MaxRunning == 0:
		return cli.Coloured("at its cap", cli.Yellow)
	case q.Mode == api.ModePull && q.ActiveWorkers == 0 && q.Depth.Queued > 0:
		return cli.Coloured("no worker", cli.Red)
	case q.Settings.MaxRunning != nil && q.Depth.Running >= *q.Settings.MaxRunning:
		return cli.Coloured("at its cap", cli.Yellow)
	case len(q.Unserved) > 0:
		return cli.Coloured("unserved", cli.Yellow)
	}
	return cli.Coloured("active", cli.Green)
}

func oldest(q api.Queue) string {
	if q.OldestQueuedMS == nil {
		return ""
	}
	return (time.Duration(*q.OldestQueuedMS) * time.Millisecond).Round(time.Second).String()
}

// drain is how many of its jobs start in a second, likelyWait how long a new one is likely to wait; empty if not known.
func drain(q api.Queue) string {
	if q.DrainPerSecond == nil {
		return ""
	}
	return strconv.FormatFloat(*q.DrainPerSecond, 'g', 3, 64)
}

func likelyWait(q api.Queue) string {
	if q.WaitMS == nil {
		return ""
	}
	return cli.About(time.Duration(*q.WaitMS) * time.Millisecond)
}

// unserved names types without a worker, with the tags that their jobs require.
func unserved(q api.Queue) string {
	types := make([]string, len(q.Unserved))
	for i, one := range q.Unserved {
		types[i] = one.Type
		if len(one.Tags) > 0 {
			types[i] += " (" + strings.Join(one.Tags, ", ") + ")"
		}
	}
	return strings.Join(types, ", ")
}

// known is a call about a queue whose 404 says how a queue is created.
func known(call func(*client.Client, context.Context, string) (api.Queue, error)) func(*client.Client, context.Context, string) (api.Queue, error) {
	return func(c *client.Client, ctx context.Context, name string) (api.Queue, error) {
		q, err := call(c, ctx, name)
		if cli.IsNotFound(err) {
			return q, fmt.Errorf("there is no queue %s; its first job creates it, or forgequeue queue set %[1]s", name)
		}
		return q, err
	}
}

func newQueuesGet(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Show a queue: depths, workers and settings",
		Args:  cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			q, err := known((*client.Client).Queue)(s.Client, ctx, args[0])
			if err != nil {
				return err
			}
			return s.Show(q, func(t *cli.Table) { describeQueue(t, q) })
		}),
	}
}

func newQueuesKeys(a *cli.App) *cobra.Command {
	var page cli.Paging
	var waiting int
	command := &cobra.Command{
		Use:   "keys NAME",
		Short: "List the keys of a queue's jobs, with how many wait, are ready and run",
		Long: `List the keys with jobs that wait or run. Waiting jobs wait for others of their key, because the queue limits how many of
them run, or in which order; ready jobs start when a worker is free. Counts stop at 10000.`,
		Args: cli.One(),
	}
	page.Flags(command)
	command.Flags().IntVar(&waiting, "min-waiting", 0, "only keys with at least so many jobs that wait for others of the key")
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		return cli.ShowList(ctx, s, page, func(ctx context.Context, p client.PageRequest) (api.Page[api.QueueKey], error) {
			return s.Client.QueueKeys(ctx, args[0], waiting, p)
		}, queueKeys)
	})
	return command
}

func queueKeys(t *cli.Table, all []api.QueueKey) {
	t.Head("KEY", "WAITING", "READY", "RUNNING", cli.Long("STOPPED BY"))
	for _, k := range all {
		t.Row(k.Key, k.Waiting, k.Ready, k.Running, cli.OrElse(k.HeldBy, ""))
	}
}

func newQueuesDelete(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete an empty queue and its settings",
		Long: `Delete a queue that has neither live jobs nor dead letters, and its settings. Jobs that have ended are kept. A job that
is submitted to it later creates it again, with default settings.`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			if err := s.Client.DeleteQueue(ctx, args[0]); err != nil {
				return err
			}
			s.Note("deleted %s", args[0])
			return nil
		}),
	}
}

func describeQueue(t *cli.Table, q api.Queue) {
	depth := depths(q)
	t.Pair("name", q.Name)
	t.Pair("mode", q.Mode)
	t.Pair("state", queueState(q))
	t.Pair("label", cli.OrElse(q.Settings.Label, ""))
	t.Pair("queued", depth("queued", q.Depth.Queued))
	t.Pair("running", depth("running", q.Depth.Running))
	t.Pair("scheduled", depth("scheduled", q.Depth.Scheduled))
	t.Pair("waiting", depth("waiting", q.Depth.Waiting))
	t.Pair("blocked", depth("blocked", q.Depth.Blocked))
	t.Pair("dead letters", depth("dead_letter", q.Depth.DeadLetter))
	t.Pair("oldest queued", oldest(q))
	t.Pair("active workers", strconv.Itoa(q.ActiveWorkers))
	t.Pair("unserved", unserved(q))
	t.Pair("visibility timeout", cli.Milliseconds(q.Settings.VisibilityTimeoutMS))
	t.Pair("max attempts", strconv.Itoa(q.Settings.MaxAttempts))
	t.Pair("retry", retryOf(q.Settings.Retry))
	t.Pair("max active", number(q.Settings.MaxActive))
	t.Pair("max running", number(q.Settings.MaxRunning))
	t.Pair("rate per second", number(q.Settings.RatePerSecond))
	t.Pair("jobs of a key", keysOf(q.Settings.Keys))
	t.Pair("windows", strings.Join(cli.WindowTexts(q.Settings.Windows), ", "))
	t.Pair("window until", q.WindowUntil)
	t.Pair("costs of a job", strings.Join(cli.AmountTexts(q.Settings.Costs), ", "))
	for _, jobType := range slices.Sorted(maps.Keys(q.Settings.Types)) {
		limit := q.Settings.Types[jobType]
		t.Pair("type "+jobType, fmt.Sprintf("max running %s, rate per second %s", number(limit.MaxRunning), number(limit.RatePerSecond)))
	}
	describePush(t, q)
}

// keysOf says how the jobs of a key start.
func keysOf(keys api.KeySettings) string {
	text := "take turns"
	if !keys.Fair {
		text = "as they become ready"
	}
	if keys.Order == api.KeyOrderFIFO {
		return text + ", one after the other in order, after a dead letter " + keys.OnDead + ", rate per second " + number(keys.RatePerSecond)
	}
	return text + ", max running " + number(keys.MaxRunning) + ", rate per second " + number(keys.RatePerSecond)
}

// number is a limit; absent is "none".
func number[T int64 | float64](limit *T) string {
	if limit == nil {
		return "none"
	}
	return fmt.Sprint(*limit)
}
