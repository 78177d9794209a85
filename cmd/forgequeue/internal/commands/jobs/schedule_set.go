package jobs

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
)

// scheduleFlags are a schedule's settings as flags.
type scheduleFlags struct {
	cron, zone, jobType, data, queue, user, overlap, catchUp string
	every, expires, timeout                                  time.Duration
	starts, ends                                             cli.Instant
	catchUpMax, priority, attempts                           int
	tags, metadata, windows                                  []string
	paused, reset                                            bool
}

func newScheduleSet(a *cli.App) *cobra.Command {
	var f scheduleFlags
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Create a schedule, or change its settings",
		Long: `Create a schedule, or change its settings. What is not given stays as it is; with --reset it becomes the default
again. The next runs are shown in your own time zone.

--cron has five fields (minute, hour, day of the month, month, day of the week), six with seconds in front, or is a
name such as @hourly. It is read in --timezone.`,
		Example: `  forgequeue schedule set nightly --cron '30 2 * * *' --timezone Europe/Berlin --type report.daily --overlap skip
  forgequeue schedule set poll --every 90s --type mail.poll --data '{"box":"orders"}' --catch-up none`,
		Args: cli.One(),
		RunE: a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
			return setSchedule(ctx, s, args[0], &f)
		}),
	}
	flags := command.Flags()
	flags.StringVar(&f.cron, "cron", "", "when, as a cron expression")
	flags.DurationVar(&f.every, "every", 0, "when, as an interval, such as 90s")
	flags.StringVar(&f.zone, "timezone", "", "the zone of --cron, such as Europe/Berlin (default \""+api.DefaultTimezone+"\")")
	flags.StringVar(&f.jobType, "type", "", "the type of its jobs")
	flags.StringVarP(&f.data, "data", "d", "", "payload: JSON, @FILE or - for standard input (default null)")
	flags.StringVarP(&f.queue, "queue", "q", "", "queue (default \""+api.DefaultQueue+"\")")
	flags.StringVar(&f.user, "user", "", "your own end user for whom the jobs run")
	flags.IntVar(&f.priority, "priority", api.DefaultPriority, "0 to 9, higher first")
	flags.IntVar(&f.attempts, "max-attempts", api.DefaultMaxAttempts, "executions that may be spent on a job; the queue's setting if not given")
	flags.DurationVar(&f.timeout, "timeout", 0, "longest time for one execution")
	flags.DurationVar(&f.expires, "expires-after", 0, "a job that has not ended this long after its submit becomes a dead letter")
	flags.StringArrayVar(&f.tags, "tag", nil, "what a worker must have to be given a job; repeatable")
	flags.StringArrayVar(&f.metadata, "metadata", nil, "NAME=VALUE, carried along; repeatable")
	flags.StringVar(&f.overlap, "overlap", api.OverlapAllow, "while the last job lives: allow, skip or cancel")
	flags.StringVar(&f.catchUp, "catch-up", api.CatchUpNone, "ticks that were missed: none, latest or all")
	flags.IntVar(&f.catchUpMax, "catch-up-max", api.DefaultCatchUpMax, "with --catch-up all: how many ticks at most")
	flags.Var(&f.starts, "starts", "no tick before this time, or before this long from now")
	flags.Var(&f.ends, "ends", "no tick after this time, or after this long from now")
	flags.StringArrayVar(&f.windows, "window", nil, `when its ticks are skipped: a cron expression, how long, and a zone if it is not UTC, such as "0 0 24 12 * 72h"; repeatable, or none`)
	flags.BoolVar(&f.paused, "paused", false, "skip its ticks")
	flags.BoolVar(&f.reset, "reset", false, "reset all settings that are not given")
	return command
}

func setSchedule(ctx context.Context, s *cli.Session, name string, f *scheduleFlags) error {
	var request api.ScheduleRequest
	if !f.reset {
		// The API replaces all settings, so those that are not given are sent as they are.
		one, err := s.Client.Schedule(ctx, name)
		if err != nil && !cli.IsNotFound(err) {
			return err
		}
		if err == nil {
			request = one.Request()
		}
	}
	if err := f.apply(s, &request); err != nil {
		return err
	}
	one, err := s.Client.PutSchedule(ctx, name, request)
	if err != nil {
		return err
	}
	return s.Show(one, func(t *cli.Table) { describeSchedule(t, one) })
}

func (f *scheduleFlags) apply(s *cli.Session, r *api.ScheduleRequest) (err error) {
	given := s.Command.Flags().Changed
	if given("cron") {
		r.Cron, r.EveryMS = &f.cron, nil
	}
	if given("every") {
		r.EveryMS = cli.GivenMS(s.Command, "every", f.every)
		if !given("cron") { // both: the server says so
			r.Cron = nil
		}
	}
	for flag, set := range map[string]func(){
		"timezone": func() { r.Timezone = f.zone }, "type": func() { r.Job.Type = f.jobType }, "queue": func() { r.Job.Queue = f.queue },
		"user": func() { r.Job.User = &f.user }, "priority": func() { r.Job.Priority = &f.priority },
		"max-attempts": func() { r.Job.MaxAttempts = &f.attempts }, "tag": func() { r.Job.Tags = f.tags },
		"timeout":       func() { r.Job.TimeoutMS = cli.GivenMS(s.Command, "timeout", f.timeout) },
		"expires-after": func() { r.Job.ExpiresAfterMS = cli.GivenMS(s.Command, "expires-after", f.expires) },
		"overlap":       func() { r.Overlap = f.overlap }, "catch-up": func() { r.CatchUp = f.catchUp },
		"catch-up-max": func() { r.CatchUpMax = &f.catchUpMax }, "paused": func() { r.Paused = f.paused },
		"starts": func() { r.StartsAt = f.starts.At }, "ends": func() { r.EndsAt = f.ends.At },
	} {
		if given(flag) {
			set()
		}
	}
	if given("window") {
		texts := slices.DeleteFunc(f.windows, func(text string) bool { return text == "none" })
		if r.Windows, err = cli.Windows("window", texts); err != nil {
			return err
		}
	}
	if given("metadata") {
		if r.Job.Metadata, err = pairs(f.metadata); err != nil {
			return err
		}
	}
	if given("data") {
		r.Job.Payload, err = readJSON("data", f.data, s.In, api.MaxPayload)
	}
	return err
}
