package forms

import (
	"strconv"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
)

// limitLabels are the labels of limits in forms, by the API's names.
var limitLabels = map[string]string{
	"requests_per_second":      "Requests a second",
	"request_burst":            "Requests at once",
	"jobs_per_second":          "Jobs submitted a second",
	"job_burst":                "Jobs submitted at once",
	"max_active":               "Cap on active jobs",
	"max_running":              "Cap on running jobs",
	"user_requests_per_second": "A user's requests a second",
	"user_request_burst":       "A user's requests at once",
	"user_jobs_per_second":     "A user's jobs submitted a second",
	"user_job_burst":           "A user's jobs submitted at once",
	"user_max_active":          "Cap on a user's active jobs",
	"user_max_running":         "Cap on a user's running jobs",
}

// LimitInputs are the inputs of a form of limits, filled with those that are set.
func LimitInputs(limits *api.Limits) []Field {
	all := limits.All()
	inputs := make([]Field, len(all))
	for i, one := range all {
		inputs[i] = Field{Name: one.Name, Label: limitLabels[one.Name]}
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
