package console

import (
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// schedule is a schedule with what is said of it.
type schedule struct {
	api.Schedule

	Path, When string
	// Runs are the newest, in a list.
	Runs []api.ScheduleOutcome
}

func newSchedule(of api.Schedule) schedule {
	s := schedule{of, "/console/schedules/" + url.PathEscape(of.Name), "", nil}
	if of.RecentRuns != nil {
		s.Runs = *of.RecentRuns
	}
	switch {
	case of.Cron != nil:
		s.When = *of.Cron + " " + of.Timezone
	case of.EveryMS != nil:
		s.When = "every " + view.Milliseconds(*of.EveryMS)
	}
	return s
}

type schedulesPage struct {
	Items []schedule
	Older string
}

func listSchedules(v *visit) (shown, error) {
	schedules, err := v.api.Schedules(v.ctx(), v.page(50))
	if err != nil {
		return shown{}, err
	}
	page := schedulesPage{Older: v.older(schedules.NextPageToken)}
	for _, one := range schedules.Items {
		page.Items = append(page.Items, newSchedule(one))
	}
	return shown{template: "schedules", title: "Schedules", data: page}, nil
}

type schedulePage struct {
	Schedule schedule
	Runs     []api.ScheduleRun
	Older    string
	Payload  document
	// Last is the job of the newest run; nil where that has none, or it is no longer kept.
	Last *api.Job
}

// showSchedule needs three requests: the schedule, its runs, and the job of the newest, which says how that ended.
func showSchedule(v *visit) (shown, error) {
	name := v.r.PathValue("name")
	one, err := v.api.Schedule(v.ctx(), name)
	if err != nil {
		return shown{}, err
	}
	runs, err := v.api.ScheduleRuns(v.ctx(), name, v.page(25))
	if err != nil {
		return shown{}, err
	}
	page := schedulePage{
		Schedule: newSchedule(one), Runs: runs.Items, Older: v.older(runs.NextPageToken),
		Payload: newDocument("Payload", one.Job.Payload, "Its jobs have no payload."),
	}
	if one.LastRun != nil && one.LastRun.JobID != nil {
		last, err := v.api.Get(v.ctx(), *one.LastRun.JobID)
		if err != nil && !gone(err) {
			return shown{}, err
		}
		if err == nil {
			page.Last = &last
		}
	}
	return shown{template: "schedule", title: one.Name, data: page}, nil
}

func changeSchedule(v *visit) (string, error) {
	name := v.r.PathValue("name")
	here := "/console/schedules/" + url.PathEscape(name)
	switch v.r.PostFormValue("do") {
	case "pause":
		_, err := v.api.PauseSchedule(v.ctx(), name)
		return here + "?note=schedule-paused", err
	case "resume":
		_, err := v.api.ResumeSchedule(v.ctx(), name)
		return here + "?note=schedule-resumed", err
	case "trigger":
		job, err := v.api.TriggerSchedule(v.ctx(), name, v.once())
		return "/console/jobs/" + job.ID, err
	case "delete":
		return "/console/schedules?note=schedule-deleted", v.api.DeleteSchedule(v.ctx(), name)
	}
	return "", errNoSuchAction
}
