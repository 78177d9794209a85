package console

import (
	"net/url"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
	"github.com/forgequeue/forgequeue/shared/client"
	"github.com/forgequeue/forgequeue/shared/problem"
)

type tenantsPage struct {
	Items []tenantRow
	// Shares is nil where they cannot be read, Span the time that they are of.
	Shares *shares
	Span   string
	Plans  []string
	Older  string
}

type tenantRow struct {
	api.Tenant

	Share tenantShare
}

func listTenants(v *visit) (shown, error) {
	tenants, err := v.api.ListTenants(v.ctx(), v.page(100))
	if err != nil {
		return shown{}, err
	}
	plans, err := v.planNames()
	if err != nil {
		return shown{}, err
	}
	page := tenantsPage{Shares: v.shares(), Span: charts.SpanOf(v.r.URL.Query()), Plans: plans, Older: v.older(tenants.NextPageToken)}
	for i := range tenants.Items {
		row := tenantRow{Tenant: tenants.Items[i]}
		if page.Shares != nil {
			row.Share = page.Shares.of(row.ID)
		}
		page.Items = append(page.Items, row)
	}
	return shown{template: "tenants", title: "Tenants", data: page}, nil
}

func (v *visit) planNames() ([]string, error) {
	plans, err := v.api.ListPlans(v.ctx(), client.PageRequest{Size: api.MaxPageSize})
	var names []string
	for _, one := range plans.Items {
		names = append(names, one.Name)
	}
	return names, err
}

func createTenant(v *visit) (string, error) {
	form := forms.Reader{Values: v.form}
	request := api.TenantRequest{Name: strings.TrimSpace(v.r.PostFormValue("name")), Plan: form.Word("plan"), Weight: form.Small("weight")}
	if len(form.Wrong) > 0 {
		return "", problem.Invalid(form.Wrong...)
	}
	made, err := v.api.CreateTenant(v.ctx(), request)
	return "/console/admin/tenants/" + made.ID + "?note=tenant-made", err
}

type tenantPage struct {
	Tenant   api.Tenant
	Plans    []string
	Keys     []api.Key
	MoreKeys bool
	Scopes   []string
	// Overrides are the inputs of its own limits; InPlace says that it has some, Users how many users have.
	Overrides []forms.Field
	InPlace   []forms.Field
	Users     int
	// New is a key that was made just now: it is shown once.
	New *api.NewKey
}

func (v *visit) tenantPage(made *api.NewKey) (shown, error) {
	id := v.r.PathValue("id")
	tenant, err := v.api.GetTenant(v.ctx(), id)
	if err != nil {
		return shown{}, err
	}
	keys, err := v.api.ListKeys(v.ctx(), id, client.PageRequest{Size: api.MaxPageSize})
	if err != nil {
		return shown{}, err
	}
	plans, err := v.planNames()
	if err != nil {
		return shown{}, err
	}
	if !slices.Contains(plans, tenant.Plan) { // there are more than are listed
		plans = append(plans, tenant.Plan)
	}
	return shown{template: "tenant", title: tenant.Name, data: tenantPage{
		Tenant: tenant, Plans: plans, Keys: keys.Items, MoreKeys: keys.NextPageToken != nil, Scopes: api.Scopes(), New: made,
		Overrides: forms.LimitInputs(&tenant.Overrides.Limits), InPlace: forms.LimitWords(&tenant.Overrides.Limits), Users: len(tenant.Overrides.Users),
	}}, nil
}

func showTenant(v *visit) (shown, error) { return v.tenantPage(nil) }

func changeTenant(v *visit) (string, error) {
	id := v.r.PathValue("id")
	here := "/console/admin/tenants/" + url.PathEscape(id)
	form := forms.Reader{Values: v.form}
	switch v.r.PostFormValue("do") {
	case "save":
		patch := api.TenantPatch{Name: form.Text("name"), Plan: form.Word("plan"), Weight: form.Small("weight")}
		if len(form.Wrong) > 0 {
			return "", problem.Invalid(form.Wrong...)
		}
		_, err := v.api.PatchTenant(v.ctx(), id, patch)
		return here + "?note=tenant-saved", err
	case "limits":
		return here + "?note=tenant-saved", v.saveOverrides(id)
	case "revoke":
		return here + "?note=key-revoked", v.api.RevokeKey(v.ctx(), v.r.PostFormValue("key_id"))
	}
	return "", errNoSuchAction
}

// makeKey shows the new key in its own answer: it is in no URL, and cannot be shown again.
func makeKey(v *visit) (shown, error) {
	request, err := v.keyRequest()
	if err != nil {
		return shown{}, err
	}
	made, err := v.api.CreateKey(v.ctx(), v.r.PathValue("id"), request)
	if err != nil {
		return shown{}, err
	}
	return v.tenantPage(&made)
}
