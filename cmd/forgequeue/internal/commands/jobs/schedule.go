package jobs

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/forgequeue/forgequeue/cmd/forgequeue/internal/cli"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
)

func newSchedule(a *cli.App) *cobra.Command {
	command := &cobra.Command{
		Use:     "schedule",
		Aliases: []string{"schedules"},
		Short:   "Schedules, which submit one job each tick: set, list, get, pause, resume, trigger, runs, delete",
		Args:    cobra.NoArgs,
	}
	list := cli.List(a.AsTenant, "list", "List schedules with their next and their last run", (*client.Client).Schedules, schedules)
	command.Flags().AddFlagSet(list.Flags()) // `schedule` alone is the list
	command.RunE = list.RunE
	command.AddCommand(
		list, newScheduleSet(a),
		cli.Call(a.AsTenant, "get NAME", "Show a schedule, and its next runs in your own time zone", (*client.Client).Schedule, describeSchedule),
		newScheduleTrigger(a),
		cli.ListOf(a.AsTenant, "runs NAME", "List the runs of a schedule, newest first", (*client.Client).ScheduleRuns, scheduleRuns),
		cli.Delete(a.AsTenant, "delete NAME", "Delete a schedule and its runs; its jobs are kept", (*client.Client).DeleteSchedule),
		cli.Call(a.AsTenant, "pause NAME", "Skip the ticks of a schedule until it is resumed", (*client.Client).PauseSchedule, cli.Row(schedules)),
		cli.Call(a.AsTenant, "resume NAME", "Resume a paused schedule: its ticks submit jobs again", (*client.Client).ResumeSchedule, cli.Row(schedules)),
	)
	return command
}

func schedules(t *cli.Table, all []api.Schedule) {
	t.Head("NAME", "STATE", "WHEN", cli.Least("ZONE"), cli.Minor("TYPE"), "NEXT", cli.Minor("LAST"), cli.Least("LAST JOB"))
	for _, one := range all {
		next, last, job := "", "", ""
		if len(one.NextRuns) > 0 && !one.Paused {
			next = here(one.NextRuns[0])
		}
		if one.LastRun != nil {
			last, job = here(one.LastRun.At), jobOrReason(*one.LastRun)
		}
		t.Row(one.Name, scheduleState(one), times(one), one.Timezone, one.Job.Type, next, last, job)
	}
}

// here is a time in the user's own zone.
func here(at api.Time) string { return at.Local().Format("2006-01-02 15:04:05 MST") } //nolint:gosmopolitan // what the user asks for

func jobOrReason(run api.ScheduleRun) string {
	return cli.OrElse(run.JobID, "skipped: "+cli.OrElse(run.Skipped, ""))
}

func scheduleState(one api.Schedule) cli.Cell {
	switch {
	case one.Paused:
		return cli.Coloured("paused", cli.Yellow)
	case len(one.NextRuns) == 0:
		return cli.Coloured("ended", cli.Blue)
	}
	return cli.Coloured("active", cli.Green)
}

// times is when the ticks are.
func times(one api.Schedule) string {
	if one.EveryMS != nil {
		return "every " + cli.Milliseconds(*one.EveryMS)
	}
	return cli.OrElse(one.Cron, "")
}

func describeSchedule(t *cli.Table, one api.Schedule) {
	t.Pair("name", one.Name)
	t.Pair("state", scheduleState(one))
	t.Pair("label", cli.OrElse(one.Label, ""))
	t.Pair("when", times(one))
	t.Pair("time zone", one.Timezone)
	t.Pair("starts", stampHere(one.StartsAt))
	t.Pair("ends", stampHere(one.EndsAt))
	t.Pair("windows", strings.Join(cli.WindowTexts(one.Windows), ", "))
	t.Pair("type", one.Job.Type)
	t.Pair("queue", one.Job.Queue)
	t.Pair("user", cli.OrElse(one.Job.User, ""))
	t.Pair("payload", cli.Brief(string(one.Job.Payload)))
	if expires := one.Job.ExpiresAfterMS; expires != nil {
		t.Pair("expires after", cli.Milliseconds(*expires))
	}
	t.Pair("overlap", one.Overlap)
	t.Pair("catch up", catchUp(one))
	if one.LastRun != nil {
		t.Pair("last run", here(one.LastRun.At)+"  "+jobOrReason(*one.LastRun))
	}
	for i, next := range one.NextRuns {
		t.Pair([...]string{"next runs", " "}[min(i, 1)], hereAndThere(next, one.Timezone))
	}
}

// hereAndThere is a time in the user's own zone, and where it differs in the schedule's too.
func hereAndThere(at api.Time, zone string) string {
	own := here(at)
	there, err := time.LoadLocation(zone)
	if err != nil {
		return own
	}
	if text := at.In(there).Format("2006-01-02 15:04:05 MST"); text != own {
		return own + "  (" + text + ")"
	}
	return own
}

func stampHere(at *api.Time) string {
	if at == nil {
		return ""
	}
	return here(*at)
}

func catchUp(one api.Schedule) string {
	if one.CatchUp == api.CatchUpAll {
		return fmt.Sprintf("all, at most %d", one.CatchUpMax)
	}
	return one.CatchUp
}

func newScheduleTrigger(a *cli.App) *cobra.Command {
	var key string
	var patience time.Duration
	var follow bool
	command := &cobra.Command{Use: "trigger NAME", Short: "Submit one job of a schedule now; its ticks do not change", Args: cli.One()}
	flags := command.Flags()
	flags.StringVar(&key, "idempotency-key", "", "Idempotency-Key: the same key again gets the first answer again")
	flags.BoolVar(&follow, "wait", false, "wait for the job's end; the exit code is its outcome")
	flags.DurationVar(&patience, "wait-timeout", 0, "wait for at most this long (default: without end)")
	command.RunE = a.AsTenant(func(ctx context.Context, s *cli.Session, args []string) error {
		var options []client.CallOption
		if key != "" {
			options = append(options, client.WithIdempotencyKey(key))
		}
		submitted, err := s.Client.TriggerSchedule(ctx, args[0], options...)
		if err != nil {
			return err
		}
		for _, warning := range submitted.Warnings {
			s.Note("warning: %s", warning)
		}
		if !follow && patience == 0 {
			return s.Show(submitted, func(t *cli.Table) { summaries(t, []api.JobSummary{submitted.JobSummary}) })
		}
		job, err := await(ctx, s, submitted.ID, patience, newSpinner(s, submitted.ID))
		if err != nil {
			return err
		}
		if err := s.Show(job, func(t *cli.Table) { describe(t, job) }); err != nil {
			return err
		}
		return outcome(job)
	})
	return command
}

func scheduleRuns(t *cli.Table, all []api.ScheduleRun) {
	t.Head("AT", "JOB", "SKIPPED")
	for _, run := range all {
		t.Row(here(run.At), cli.OrElse(run.JobID, ""), cli.OrElse(run.Skipped, ""))
	}
}
