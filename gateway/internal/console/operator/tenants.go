// Package operator has the console's pages for the operator: tenants and their keys, plans, the installation.
package operator

import (
	"net/url"
	"slices"
	"strings"

	"github.com/forgequeue/forgequeue/gateway/internal/console/charts"
	"github.com/forgequeue/forgequeue/gateway/internal/console/forms"
	"github.com/forgequeue/forgequeue/gateway/internal/console/visit"
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

// ListTenants lists the tenants with their shares.
func ListTenants(v *visit.Visit) (visit.Page, error) {
	tenants, err := v.API.ListTenants(v.Context(), v.PageRequest(100))
	if err != nil {
		return visit.Page{}, err
	}
	plans, err := planNames(v)
	if err != nil {
		return visit.Page{}, err
	}
	page := tenantsPage{Shares: sharesIn(v), Span: charts.SpanOf(v.Request.URL.Query()), Plans: plans, Older: v.Older(tenants.NextPageToken)}
	for i := range tenants.Items {
		row := tenantRow{Tenant: tenants.Items[i]}
		if page.Shares != nil {
			row.Share = page.Shares.of(row.ID)
		}
		page.Items = append(page.Items, row)
	}
	return visit.Page{Template: "tenants", Title: "Tenants", Data: page}, nil
}

func planNames(v *visit.Visit) ([]string, error) {
	plans, err := v.API.ListPlans(v.Context(), client.PageRequest{Size: api.MaxPageSize})
	var names []string
	for _, one := range plans.Items {
		names = append(names, one.Name)
	}
	return names, err
}

// CreateTenant creates a tenant.
func CreateTenant(v *visit.Visit) (string, error) {
	form := forms.Reader{Values: v.Form}
	request := api.TenantRequest{Name: strings.TrimSpace(v.Request.PostFormValue("name")), Plan: form.Word("plan"), Weight: form.Small("weight")}
	if len(form.Wrong) > 0 {
		return "", problem.Invalid(form.Wrong...)
	}
	made, err := v.API.CreateTenant(v.Context(), request)
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

func tenantShown(v *visit.Visit, made *api.NewKey) (visit.Page, error) {
	id := v.Request.PathValue("id")
	tenant, err := v.API.GetTenant(v.Context(), id)
	if err != nil {
		return visit.Page{}, err
	}
	keys, err := v.API.ListKeys(v.Context(), id, client.PageRequest{Size: api.MaxPageSize})
	if err != nil {
		return visit.Page{}, err
	}
	plans, err := planNames(v)
	if err != nil {
		return visit.Page{}, err
	}
	if !slices.Contains(plans, tenant.Plan) { // there are more than are listed
		plans = append(plans, tenant.Plan)
	}
	return visit.Page{Template: "tenant", Title: tenant.Name, Data: tenantPage{
		Tenant: tenant, Plans: plans, Keys: keys.Items, MoreKeys: keys.NextPageToken != nil, Scopes: api.Scopes(), New: made,
		Overrides: forms.LimitInputs(&tenant.Overrides.Limits), InPlace: forms.LimitWords(&tenant.Overrides.Limits), Users: len(tenant.Overrides.Users),
	}}, nil
}

// ShowTenant shows a tenant with its keys.
func ShowTenant(v *visit.Visit) (visit.Page, error) { return tenantShown(v, nil) }

// ChangeTenant changes a tenant or its limits, or revokes a key of it.
func ChangeTenant(v *visit.Visit) (string, error) {
	id := v.Request.PathValue("id")
	here := "/console/admin/tenants/" + url.PathEscape(id)
	form := forms.Reader{Values: v.Form}
	switch v.Request.PostFormValue("do") {
	case "save":
		patch := api.TenantPatch{Name: form.Text("name"), Plan: form.Word("plan"), Weight: form.Small("weight")}
		if len(form.Wrong) > 0 {
			return "", problem.Invalid(form.Wrong...)
		}
		_, err := v.API.PatchTenant(v.Context(), id, patch)
		return here + "?note=tenant-saved", err
	case "limits":
		return here + "?note=tenant-saved", saveOverrides(v, id)
	case "revoke":
		return here + "?note=key-revoked", v.API.RevokeKey(v.Context(), v.Request.PostFormValue("key_id"))
	}
	return "", visit.ErrNoSuchAction
}

// MakeKey shows the new key in its own answer: it is in no URL, and cannot be shown again.
func MakeKey(v *visit.Visit) (visit.Page, error) {
	request, err := (&forms.Reader{Values: v.Form}).Key(v.Site.Now())
	if err != nil {
		return visit.Page{}, err
	}
	made, err := v.API.CreateKey(v.Context(), v.Request.PathValue("id"), request)
	if err != nil {
		return visit.Page{}, err
	}
	return tenantShown(v, &made)
}
