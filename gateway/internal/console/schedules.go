package console

import (
	"net/url"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
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

func listSchedules(v *visit.Visit) (visit.Page, error) {
	schedules, err := v.API.Schedules(v.Context(), v.PageRequest(50))
	if err != nil {
		return visit.Page{}, err
	}
	page := schedulesPage{Older: v.Older(schedules.NextPageToken)}
	for _, one := range schedules.Items {
		page.Items = append(page.Items, newSchedule(one))
	}
	return visit.Page{Template: "schedules", Title: "Schedules", Data: page}, nil
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
func showSchedule(v *visit.Visit) (visit.Page, error) {
	name := v.Request.PathValue("name")
	one, err := v.API.Schedule(v.Context(), name)
	if err != nil {
		return visit.Page{}, err
	}
	runs, err := v.API.ScheduleRuns(v.Context(), name, v.PageRequest(25))
	if err != nil {
		return visit.Page{}, err
	}
	page := schedulePage{
		Schedule: newSchedule(one), Runs: runs.Items, Older: v.Older(runs.NextPageToken),
		Payload: newDocument("Payload", one.Job.Payload, "Its jobs have no payload."),
	}
	if one.LastRun != nil && one.LastRun.JobID != nil {
		last, err := v.API.Get(v.Context(), *one.LastRun.JobID)
		if err != nil && !visit.Gone(err) {
			return visit.Page{}, err
		}
		if err == nil {
			page.Last = &last
		}
	}
	return visit.Page{Template: "schedule", Title: one.Name, Data: page}, nil
}

func changeSchedule(v *visit.Visit) (string, error) {
	name := v.Request.PathValue("name")
	here := "/console/schedules/" + url.PathEscape(name)
	switch v.Request.PostFormValue("do") {
	case "pause":
		_, err := v.API.PauseSchedule(v.Context(), name)
		return here + "?note=schedule-paused", err
	case "resume":
		_, err := v.API.ResumeSchedule(v.Context(), name)
		return here + "?note=schedule-resumed", err
	case "trigger":
		job, err := v.API.TriggerSchedule(v.Context(), name, onceKey(v))
		return "/console/jobs/" + job.ID, err
	case "delete":
		return "/console/schedules?note=schedule-deleted", v.API.DeleteSchedule(v.Context(), name)
	}
	return "", visit.ErrNoSuchAction
}
