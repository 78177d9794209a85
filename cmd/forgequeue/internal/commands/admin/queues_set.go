package admin

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// queueFlags are a queue's settings as flags.
type queueFlags struct {
	visibility, base, last time.Duration
	attempts               int
	jitter                 float64
	active, running, rate  string
	ofType, rateOfType     map[string]string
	curve                  string
	keys                   keyFlags
	costs, windows         []string
	push                   pushFlags
	reset                  bool
}

func newQueuesSet(a *cli.App) *cobra.Command {
	var f queueFlags
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a queue, or change its settings",
		Long: `Create a queue, or change its settings. What is not given stays as it is; with --reset it becomes the default
again. The word none removes a limit.`,
		Example: "  forgequeue queue set mail --visibility-timeout 2m --max-active 5000 --max-running 20 --rate none\n" +
			"  forgequeue queue set mail --type-max-running invoice=5 --type-rate invoice=10\n" +
			"  forgequeue queue set invoices --key-order fifo --key-on-dead hold\n" +
			"  forgequeue queue set hooks --push https://example.com/jobs --max-running 10",
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error { return setQueue(ctx, s, args[0], &f) }),
	}
	flags := command.Flags()
	flags.DurationVar(&f.visibility, "visibility-timeout", api.DefaultVisibilityTimeout, "how long a lease lasts without a heartbeat")
	flags.IntVar(&f.attempts, "max-attempts", api.DefaultMaxAttempts, "executions that may be spent on a job")
	flags.DurationVar(&f.base, "retry-base", api.DefaultRetryBase, "wait after the first failure; it doubles with each")
	flags.DurationVar(&f.last, "retry-cap", api.DefaultRetryCap, "longest wait after a failure")
	flags.Float64Var(&f.jitter, "retry-jitter", api.DefaultRetryJitter, "the wait varies at random by up to this share, 0 to 1")
	flags.StringVar(&f.curve, "retry-curve", api.DefaultRetryCurve, "how the wait grows: exponential, linear or constant")
	flags.StringVar(&f.active, "max-active", "", "maximum of jobs that have not ended; more submits are refused; or none")
	flags.StringVar(&f.running, "max-running", "", "jobs that may run at once, or none")
	flags.StringVar(&f.rate, "rate", "", "jobs that may start in a second, or none")
	flags.StringToStringVar(&f.ofType, "type-max-running", nil, "TYPE=N: jobs of a type that may run at once, or none")
	flags.StringToStringVar(&f.rateOfType, "type-rate", nil, "TYPE=N: jobs of a type that may start in a second, or none")
	flags.BoolVar(&f.reset, "reset", false, "reset all settings that are not given")
	f.keys.flags(flags)
	flags.StringArrayVar(&f.costs, "cost", nil, "BUDGET=N: how much of a budget an attempt may use of a job that does not say it; repeatable, or none")
	flags.StringArrayVar(&f.windows, "window", nil, `when no job starts: a cron expression, how long, and a zone if it is not UTC, such as "0 22 * * * 8h Europe/Berlin"; repeatable, or none`)
	f.push.flags(command)
	return command
}

func setQueue(ctx context.Context, s *cli.Session, name string, f *queueFlags) error {
	if changed := s.Command.Flags().Changed; changed("push") || changed("new-push-secret") {
		if err := s.NoNames("it would not show the secret of a push, which is never shown again"); err != nil {
			return err
		}
	}
	var request api.QueueRequest
	if !f.reset {
		// The API replaces all settings, so those that are not given are sent as they are.
		queue, err := s.Client.Queue(ctx, name)
		if err != nil && !cli.IsNotFound(err) {
			return err
		}
		if err == nil {
			request = queue.Settings.Request()
		}
	}
	if err := f.apply(s.Command, &request); err != nil {
		return err
	}
	queue, err := s.Client.PutQueue(ctx, name, request)
	if err != nil {
		return err
	}
	return s.Show(queue, func(t *cli.Table) { describeQueue(t, queue) })
}

func (f *queueFlags) apply(command *cobra.Command, request *api.QueueRequest) error {
	if request.Retry == nil {
		request.Retry = &api.RetryRequest{}
	}
	replace(&request.VisibilityTimeoutMS, cli.GivenMS(command, "visibility-timeout", f.visibility))
	replace(&request.MaxAttempts, cli.Given(command, "max-attempts", f.attempts))
	replace(&request.Retry.BaseMS, cli.GivenMS(command, "retry-base", f.base))
	replace(&request.Retry.CapMS, cli.GivenMS(command, "retry-cap", f.last))
	replace(&request.Retry.Jitter, cli.Given(command, "retry-jitter", f.jitter))
	replace(&request.Retry.Curve, cli.Given(command, "retry-curve", f.curve))
	whole := func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }
	number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	f.keys.apply(command, request)
	if slices.Equal(f.costs, []string{none}) {
		request.Costs, f.costs = nil, nil
	}
	costs, err := cli.Amounts("cost", f.costs)
	if costs != nil {
		request.Costs = costs
	}
	windows, wrong := cli.Windows("window", slices.DeleteFunc(f.windows, func(text string) bool { return text == none }))
	if command.Flags().Changed("window") {
		request.Windows = windows
	}
	return errors.Join(
		err, wrong,
		f.push.apply(command, request),
		f.keys.limits(command, request, whole, number),
		replaceLimit(command, &request.MaxActive, "max-active", f.active, whole),
		replaceLimit(command, &request.MaxRunning, "max-running", f.running, whole),
		replaceLimit(command, &request.RatePerSecond, "rate", f.rate, number),
		limitTypes(request, "type-max-running", f.ofType, whole, func(limit *api.TypeLimit) **int64 { return &limit.MaxRunning }),
		limitTypes(request, "type-rate", f.rateOfType, number, func(limit *api.TypeLimit) **float64 { return &limit.RatePerSecond }),
	)
}

// keyFlags are how the jobs of a key start.
type keyFlags struct {
	fair                   bool
	running, order, onDead string
	rate, burst            string
}

func (f *keyFlags) flags(flags *pflag.FlagSet) {
	flags.BoolVar(&f.fair, "key-fair", true, "the keys of jobs take turns; otherwise jobs start in the order in which they became ready")
	flags.StringVar(&f.running, "key-max-running", "", "jobs of a key that may run at once, or none")
	flags.StringVar(&f.rate, "key-rate", "", "jobs of a key that may start in a second, or none")
	flags.StringVar(&f.burst, "key-burst", "", "jobs of a key that may start at once after a pause, or none for the rate rounded up")
	flags.StringVar(&f.order, "key-order", api.KeyOrderNone, "fifo: the jobs of a key run one after the other, as they were accepted; or none")
	flags.StringVar(&f.onDead, "key-on-dead", api.KeySkip, "with fifo, after a dead letter: skip (the next job of the key starts) or hold (none starts until its redrive or discard)")
}

func (f *keyFlags) apply(command *cobra.Command, request *api.QueueRequest) {
	given := api.KeySettingsRequest{}
	if request.Keys != nil {
		given = *request.Keys
	}
	replace(&given.Fair, cli.Given(command, "key-fair", f.fair))
	replace(&given.Order, cli.Given(command, "key-order", f.order))
	replace(&given.OnDead, cli.Given(command, "key-on-dead", f.onDead))
	if given != (api.KeySettingsRequest{}) || slices.ContainsFunc([]string{"key-max-running", "key-rate", "key-burst"}, command.Flags().Changed) {
		request.Keys = &given
	}
}

func (f *keyFlags) limits(command *cobra.Command, request *api.QueueRequest, whole func(string) (int64, error), number func(string) (float64, error)) error {
	keys := request.Keys
	if keys == nil {
		return nil
	}
	err := errors.Join(
		replaceLimit(command, &keys.MaxRunning, "key-max-running", f.running, whole),
		replaceLimit(command, &keys.RatePerSecond, "key-rate", f.rate, number),
		replaceLimit(command, &keys.Burst, "key-burst", f.burst, whole),
	)
	if keys.RatePerSecond == nil && !command.Flags().Changed("key-burst") {
		keys.Burst = nil // it goes with the rate
	}
	return err
}

// limitTypes sets one kind of limit by type. A type without limits is left out.
func limitTypes[T any](request *api.QueueRequest, flag string, given map[string]string, parse func(string) (T, error), of func(*api.TypeLimit) **T) error {
	for jobType, text := range given {
		value, err := limitOrNone(flag, text, parse)
		if err != nil {
			return err
		}
		limit := request.Types[jobType]
		*of(&limit) = value
		if request.Types = maps.Clone(request.Types.Known()); limit == (api.TypeLimit{}) {
			delete(request.Types, jobType)
		} else {
			request.Types[jobType] = limit
		}
	}
	return nil
}

func replace[T any](old **T, value *T) {
	if value != nil {
		*old = value
	}
}

const none = "none"

// replaceLimit sets a limit if its flag is set; the value none removes it.
func replaceLimit[T any](command *cobra.Command, limit **T, flag, text string, parse func(string) (T, error)) error {
	if !command.Flags().Changed(flag) {
		return nil
	}
	value, err := limitOrNone(flag, text, parse)
	if err == nil {
		*limit = value
	}
	return err
}

func limitOrNone[T any](flag, text string, parse func(string) (T, error)) (*T, error) {
	if text == none {
		return nil, nil //nolint:nilnil // none is a value here
	}
	value, err := parse(text)
	if errors.Is(err, cli.ErrTooShort) {
		return nil, cli.Usage("--%s %q: %w", flag, text, err)
	}
	if err != nil {
		return nil, cli.Usage("--%s %q: must be a number, or %s", flag, text, none)
	}
	return &value, nil
}
