package schedule

import (
	"context"
	"time"
)

// StepSchedules is a step, PostponeSchedules what follows one that fails.
func (s *Schedules) StepSchedules(ctx context.Context, candidates []Candidate) (Step, error) {
	return s.step(ctx, candidates)
}

func (s *Schedules) PostponeSchedules(ctx context.Context, candidates []Candidate, pause time.Duration) error {
	return s.postpone(ctx, candidates, pause)
}

// Planned are statements with the indexes that their plans must use.
func Planned() map[string][]string {
	return map[string][]string{
		nextScheduleSQL:   {"schedules_due"},
		oldestDueSQL:      {"schedules_due"},
		firstsDueSQL:      {"schedules_due_tenant"},
		dueJobsSQL:        {"schedules_pkey"},
		lockDueSQL:        {"schedules_pkey"},
		postponeSQL:       {"schedules_pkey"},
		claimRunsSQL:      {},
		correctRunsSQL:    {"schedule_runs_pkey"},
		moveSchedulesSQL:  {"schedules_pkey"},
		livingSQL:         {"jobs_pkey"},
		getScheduleSQL:    {"schedules_pkey"},
		listSchedulesSQL:  {"schedules_pkey", "schedule_runs_pkey", "jobs_pkey", "dead_letters_pkey"},
		lockScheduleSQL:   {"schedules_pkey"},
		countSchedulesSQL: {"schedules_"},
		runsSQL:           {"schedule_runs_pkey"},
		pauseScheduleSQL:  {"schedules_pkey"},
		deleteRunsSQL:     {"schedule_runs_pkey"},
		deleteScheduleSQL: {"schedules_pkey"},
		lockTriggeredSQL:  {"schedules_pkey"},
		noteTriggerSQL:    {"schedules_pkey"},
		futureSQL:         {"schedules_pkey"},
		rewindSQL:         {"schedules_pkey"},
	}
}

// DueWindow, DueFirsts and DueFirstsMost are the bounds of a listing.
const (
	DueWindow     = dueWindow
	DueFirsts     = dueFirsts
	DueFirstsMost = dueFirstsMost
)
