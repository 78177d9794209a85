package operator

import (
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

type planRow struct {
	api.Plan

	Path string
	// Words are the limits that are set; Inputs are those of the form.
	Words, Inputs []forms.Field
}

// ListPlans lists the plans.
func ListPlans(v *visit.Visit) (visit.Page, error) {
	plans, err := v.API.ListPlans(v.Context(), v.PageRequest(100))
	if err != nil {
		return visit.Page{}, err
	}
	rows := make([]planRow, len(plans.Items))
	for i, one := range plans.Items {
		rows[i] = planRow{one, "/console/admin/plans/" + url.PathEscape(one.Name), forms.LimitWords(&one.Limits), forms.LimitInputs(&one.Limits)}
	}
	return visit.Page{Template: "plans", Title: "Plans", Data: plansPage{rows, forms.LimitInputs(&api.Limits{})}}, nil
}

type plansPage struct {
	Items []planRow
	// New are the inputs of a plan that is not there yet.
	New []forms.Field
}

// MakePlan makes a plan by a form that names it. One that is there is not replaced by a slip.
func MakePlan(v *visit.Visit) (string, error) {
	name := strings.TrimSpace(v.Request.PostFormValue("name"))
	if name == "" {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "must be given"})
	}
	_, err := v.API.GetPlan(v.Context(), name)
	if err == nil {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "a plan has this name: change that one, or choose another name"})
	}
	if !visit.Gone(err) {
		return "", err
	}
	return putPlan(v, name, nil)
}

// ChangePlan replaces a plan. Its label stays.
func ChangePlan(v *visit.Visit) (string, error) {
	name := v.Request.PathValue("name")
	plan, err := v.API.GetPlan(v.Context(), name)
	if err != nil && !visit.Gone(err) {
		return "", err
	}
	return putPlan(v, name, plan.Label)
}

func putPlan(v *visit.Visit, name string, label *string) (string, error) {
	form := forms.Reader{Values: v.Form}
	request := api.PlanRequest{Limits: form.Limits(), VisibilityTimeoutMSMax: form.Seconds("visibility_timeout_max"), Label: label}
	if len(form.Wrong) > 0 {
		return "", problem.Invalid(form.Wrong...)
	}
	_, err := v.API.PutPlan(v.Context(), name, request)
	return "/console/admin/plans?note=plan-saved", err
}

// saveOverrides replaces the tenant's own limits, and leaves those of single users as they are.
func saveOverrides(v *visit.Visit, id string) error {
	tenant, err := v.API.GetTenant(v.Context(), id)
	if err != nil {
		return err
	}
	form := forms.Reader{Values: v.Form}
	overrides := api.Overrides{Limits: form.Limits(), Users: tenant.Overrides.Users}
	if len(form.Wrong) > 0 {
		return problem.Invalid(form.Wrong...)
	}
	_, err = v.API.PatchTenant(v.Context(), id, api.TenantPatch{Overrides: &overrides})
	return err
}
