package console

import (
	"net/http"
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
	schedules, err := list[api.Schedule](v.client, "/v1/schedules", v.pageQuery(50))
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
	at := resource("schedules", v.r.PathValue("name"))
	one, err := get[api.Schedule](v.client, at, nil)
	if err != nil {
		return shown{}, err
	}
	runs, err := list[api.ScheduleRun](v.client, at+"/runs", v.pageQuery(25))
	if err != nil {
		return shown{}, err
	}
	page := schedulePage{
		Schedule: newSchedule(one), Runs: runs.Items, Older: v.older(runs.NextPageToken),
		Payload: newDocument("Payload", one.Job.Payload, "Its jobs have no payload."),
	}
	if one.LastRun != nil && one.LastRun.JobID != nil {
		last, err := get[api.Job](v.client, resource("jobs", *one.LastRun.JobID), nil)
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
	here, at := "/console/schedules/"+url.PathEscape(name), resource("schedules", name)
	switch v.r.PostFormValue("do") {
	case "pause":
		return here + "?note=schedule-paused", v.call(http.MethodPost, at+"/pause", nil, nil, nil)
	case "resume":
		return here + "?note=schedule-resumed", v.call(http.MethodPost, at+"/resume", nil, nil, nil)
	case "trigger":
		job, err := v.submit(at + "/trigger")
		return "/console/jobs/" + job.ID, err
	case "delete":
		return "/console/schedules?note=schedule-deleted", v.call(http.MethodDelete, at, nil, nil, nil)
	}
	return "", errNoSuchAction
}
