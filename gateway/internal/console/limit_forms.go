package console

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/view"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

// limitFormLabels are the labels of limits in forms, by the API's names.
var limitFormLabels = map[string]string{
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

// limitInputs are the inputs of a form of limits, filled with those that are set.
func limitInputs(limits *api.Limits) []field {
	all := limits.All()
	inputs := make([]field, len(all))
	for i, one := range all {
		inputs[i] = field{Name: one.Name, Label: limitFormLabels[one.Name]}
		switch {
		case one.Rate != nil && *one.Rate != nil:
			inputs[i].Value = view.Input(**one.Rate)
		case one.Count != nil && *one.Count != nil:
			inputs[i].Value = strconv.FormatInt(**one.Count, 10)
		}
	}
	return inputs
}

// limits reads a form of limits; an empty input is no limit.
func (f *formReader) limits() api.Limits {
	var read api.Limits
	for _, one := range read.All() { // errors in the form's order
		if one.Rate != nil {
			*one.Rate = f.number(one.Name)
		} else {
			*one.Count = f.whole(one.Name)
		}
	}
	return read
}

// limitWords are the limits that are set, in words.
func limitWords(l *api.Limits) []field {
	var all []field
	rate := func(label string, perSecond *float64, burst *int64) {
		if perSecond == nil {
			return
		}
		now := view.Decimal(*perSecond) + " a second"
		if burst != nil {
			now += ", bursts of " + view.Number(*burst)
		}
		all = append(all, field{Label: label, Now: now})
	}
	most := func(label string, n *int64) {
		if n != nil {
			all = append(all, field{Label: label, Now: view.Number(*n)})
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

type planRow struct {
	api.Plan

	Path string
	// Words are the limits that are set; Inputs are those of the form.
	Words, Inputs []field
}

func listPlans(v *visit) (shown, error) {
	plans, err := list[api.Plan](v.client, "/v1/admin/plans", v.pageQuery(100))
	if err != nil {
		return shown{}, err
	}
	rows := make([]planRow, len(plans.Items))
	for i, one := range plans.Items {
		rows[i] = planRow{one, "/console/admin/plans/" + url.PathEscape(one.Name), limitWords(&one.Limits), limitInputs(&one.Limits)}
	}
	return shown{template: "plans", title: "Plans", data: plansPage{rows, limitInputs(&api.Limits{})}}, nil
}

type plansPage struct {
	Items []planRow
	// New are the inputs of a plan that is not there yet.
	New []field
}

// makePlan makes a plan by a form that names it. One that is there is not replaced by a slip.
func makePlan(v *visit) (string, error) {
	name := strings.TrimSpace(v.r.PostFormValue("name"))
	if name == "" {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "must be given"})
	}
	_, err := get[api.Plan](v.client, resource("admin", "plans", name), nil)
	if err == nil {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "a plan has this name: change that one, or choose another name"})
	}
	if !gone(err) {
		return "", err
	}
	return v.putPlan(name)
}

func changePlan(v *visit) (string, error) { return v.putPlan(v.r.PathValue("name")) }

func (v *visit) putPlan(name string) (string, error) {
	form := formReader{values: v.form}
	request := api.PlanRequest{Limits: form.limits(), VisibilityTimeoutMSMax: form.seconds("visibility_timeout_max")}
	if len(form.wrong) > 0 {
		return "", problem.Invalid(form.wrong...)
	}
	return "/console/admin/plans?note=plan-saved", v.call(http.MethodPut, resource("admin", "plans", name), nil, request, nil)
}

// saveOverrides replaces the tenant's own limits, and leaves those of single users as they are.
func (v *visit) saveOverrides(id string) error {
	tenant, err := get[api.Tenant](v.client, resource("admin", "tenants", id), nil)
	if err != nil {
		return err
	}
	form := formReader{values: v.form}
	overrides := api.Overrides{Limits: form.limits(), Users: tenant.Overrides.Users}
	if len(form.wrong) > 0 {
		return problem.Invalid(form.wrong...)
	}
	return v.call(http.MethodPatch, resource("admin", "tenants", id), nil, api.TenantPatch{Overrides: &overrides}, nil)
}
