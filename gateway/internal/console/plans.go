package console

import (
	"net/url"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/problem"
)

type planRow struct {
	api.Plan

	Path string
	// Words are the limits that are set; Inputs are those of the form.
	Words, Inputs []forms.Field
}

func listPlans(v *visit) (shown, error) {
	plans, err := v.api.ListPlans(v.ctx(), v.page(100))
	if err != nil {
		return shown{}, err
	}
	rows := make([]planRow, len(plans.Items))
	for i, one := range plans.Items {
		rows[i] = planRow{one, "/console/admin/plans/" + url.PathEscape(one.Name), forms.LimitWords(&one.Limits), forms.LimitInputs(&one.Limits)}
	}
	return shown{template: "plans", title: "Plans", data: plansPage{rows, forms.LimitInputs(&api.Limits{})}}, nil
}

type plansPage struct {
	Items []planRow
	// New are the inputs of a plan that is not there yet.
	New []forms.Field
}

// makePlan makes a plan by a form that names it. One that is there is not replaced by a slip.
func makePlan(v *visit) (string, error) {
	name := strings.TrimSpace(v.r.PostFormValue("name"))
	if name == "" {
		return "", problem.Invalid(problem.FieldError{Field: "name", Message: "must be given"})
	}
	_, err := v.api.GetPlan(v.ctx(), name)
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
	form := forms.Reader{Values: v.form}
	request := api.PlanRequest{Limits: form.Limits(), VisibilityTimeoutMSMax: form.Seconds("visibility_timeout_max")}
	if len(form.Wrong) > 0 {
		return "", problem.Invalid(form.Wrong...)
	}
	_, err := v.api.PutPlan(v.ctx(), name, request)
	return "/console/admin/plans?note=plan-saved", err
}

// saveOverrides replaces the tenant's own limits, and leaves those of single users as they are.
func (v *visit) saveOverrides(id string) error {
	tenant, err := v.api.GetTenant(v.ctx(), id)
	if err != nil {
		return err
	}
	form := forms.Reader{Values: v.form}
	overrides := api.Overrides{Limits: form.Limits(), Users: tenant.Overrides.Users}
	if len(form.Wrong) > 0 {
		return problem.Invalid(form.Wrong...)
	}
	_, err = v.api.PatchTenant(v.ctx(), id, api.TenantPatch{Overrides: &overrides})
	return err
}
