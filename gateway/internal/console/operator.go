package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/shared/api"
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
	tenants, err := list[api.Tenant](v.client, "/v1/admin/tenants", v.pageQuery(100))
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
	plans, err := list[api.Plan](v.client, "/v1/admin/plans", url.Values{"page_size": {"200"}})
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
	var made api.Tenant
	err := v.call(http.MethodPost, "/v1/admin/tenants", nil, request, &made)
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
	at := resource("admin", "tenants", v.r.PathValue("id"))
	tenant, err := get[api.Tenant](v.client, at, nil)
	if err != nil {
		return shown{}, err
	}
	keys, err := list[api.Key](v.client, at+"/keys", url.Values{"page_size": {"200"}})
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
		return here + "?note=tenant-saved", v.call(http.MethodPatch, resource("admin", "tenants", id), nil, patch, nil)
	case "limits":
		return here + "?note=tenant-saved", v.saveOverrides(id)
	case "revoke":
		return here + "?note=key-revoked", v.call(http.MethodDelete, resource("admin", "keys", v.r.PostFormValue("key_id")), nil, nil, nil)
	}
	return "", errNoSuchAction
}

// makeKey shows the new key in its own answer: it is in no URL, and cannot be shown again.
func makeKey(v *visit) (shown, error) {
	request, err := v.keyRequest()
	if err != nil {
		return shown{}, err
	}
	var made api.NewKey
	if err := v.call(http.MethodPost, resource("admin", "tenants", v.r.PathValue("id"), "keys"), nil, request, &made); err != nil {
		return shown{}, err
	}
	return v.tenantPage(&made)
}
