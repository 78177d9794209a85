package forms

import (
	"strconv"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// limitWords are the labels of limits in forms, and what each limit means, by the API's names.
var limitWords = map[string]struct{ label, meaning string }{
	"requests_per_second":      {"Request rate (per second)", "Requests that the tenant may send in a second, and again each of its keys. Above it they are refused with 429."},
	"request_burst":            {"Request burst", "Requests that may come at once, after a pause. Empty: as many as in a second."},
	"jobs_per_second":          {"Job rate (per second)", "Jobs that the tenant may submit in a second. Above it submits are refused with 429."},
	"job_burst":                {"Job burst", "Jobs that may be submitted at once, after a pause. Empty: as many as in a second."},
	"max_active":               {"Cap on active jobs", "Jobs of the tenant that have not ended. At the cap, submits are refused with 429."},
	"max_running":              {"Cap on running jobs", "Jobs of the tenant that run at the same time. At the cap, further jobs stay queued."},
	"user_requests_per_second": {"A user's request rate (per second)", "The same rate of requests, for each user of the tenant."},
	"user_request_burst":       {"A user's request burst", "The same burst of requests, for each user of the tenant."},
	"user_jobs_per_second":     {"A user's job rate (per second)", "The same rate of submitted jobs, for each user of the tenant."},
	"user_job_burst":           {"A user's job burst", "The same burst of submitted jobs, for each user of the tenant."},
	"user_max_active":          {"Cap on a user's active jobs", "Jobs of one user that have not ended. At the cap, that user's submits are refused with 429."},
	"user_max_running":         {"Cap on a user's running jobs", "Jobs of one user that run at the same time. At the cap, that user's further jobs stay queued."},
}

// LimitInputs are the inputs of a form of limits, filled with those that are set.
func LimitInputs(limits *api.Limits) []Field {
	all := limits.All()
	inputs := make([]Field, len(all))
	for i, one := range all {
		inputs[i] = Field{Name: one.Name, Label: limitWords[one.Name].label, Help: limitWords[one.Name].meaning}
		switch {
		case one.Rate != nil && *one.Rate != nil:
			inputs[i].Value = view.Input(**one.Rate)
		case one.Count != nil && *one.Count != nil:
			inputs[i].Value = strconv.FormatInt(**one.Count, 10)
		}
	}
	return inputs
}

// Limits reads a form of limits; an empty input is no limit.
func (f *Reader) Limits() api.Limits {
	var read api.Limits
	for _, one := range read.All() { // errors in the form's order
		if one.Rate != nil {
			*one.Rate = f.Number(one.Name)
		} else {
			*one.Count = f.Whole(one.Name)
		}
	}
	return read
}

// LimitWords are the limits that are set, in words.
func LimitWords(l *api.Limits) []Field {
	var all []Field
	rate := func(label string, perSecond *float64, burst *int64) {
		if perSecond == nil {
			return
		}
		now := view.Decimal(*perSecond) + " a second"
		if burst != nil {
			now += ", bursts of " + view.Number(*burst)
		}
		all = append(all, Field{Label: label, Now: now})
	}
	most := func(label string, n *int64) {
		if n != nil {
			all = append(all, Field{Label: label, Now: view.Number(*n)})
		}
	}
	rate("Requests", l.RequestsPerSecond, l.RequestBurst)
	rate("Jobs submitted", l.JobsPerSecond, l.JobBurst)
	most("Cap on active jobs", l.MaxActive)
	most("Cap on running jobs", l.MaxRunning)
	rate("Requests of a user", l.UserRequestsPerSecond, l.UserRequestBurst)
	rate("Jobs of a user", l.UserJobsPerSecond, l.UserJobBurst)
	most("Cap on a user's active jobs", l.UserMaxActive)
	most("Cap on a user's running jobs", l.UserMaxRunning)
	return all
}
