package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// createTenant
//
//	@Summary     Make a tenant
//	@Description Plan `standard` and weight 1 where not said.
//	@ID          createTenant
//	@Tags        Admin
//	@Param       tenant body api.TenantRequest true "The tenant."
//	@Success     201 {object} api.Tenant "The tenant."
//	@x-access    "operator"
//	@x-example-tenant {"name": "Example Ltd", "plan": "standard", "weight": 2}
//	@Router      /v1/admin/tenants [post]

// listTenants
//
//	@Summary     List tenants
//	@Description All tenants, newest first.
//	@ID          listTenants
//	@Tags        Admin
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Tenant] "A page of tenants."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants [get]

// patchTenant
//
//	@Summary     Change a tenant
//	@Description What is absent stays. `overrides`, where given, replace all overrides: they take the place of single limits of the plan, for the tenant and by user. New limits hold here at once, at other gateways within 30 s.
//	@ID          patchTenant
//	@Tags        Admin
//	@Param       id     path string          true "The tenant's id." Format(uuid)
//	@Param       tenant body api.TenantPatch true "What changes."
//	@Success     200 {object} api.Tenant "The tenant as it is now."
//	@x-access    "operator"
//	@x-example-overrides {"overrides": {"jobs_per_second": 100, "max_active": 10000, "users": {"bob": {"max_active": 10}}}}
//	@x-example-weight    {"weight": 5}
//	@Router      /v1/admin/tenants/{id} [patch]

// createKey
//
//	@Summary     Make an API key
//	@Description `key` is shown in this answer only: keep it. With `user` the key acts for, and sees, that user alone.
//	@ID          createKey
//	@Tags        Admin
//	@Param       id  path string         true "The tenant's id." Format(uuid)
//	@Param       key body api.KeyRequest true "What the key may do."
//	@Success     201 {object} api.NewKey "The key."
//	@x-access    "operator"
//	@x-example-producer {"scopes": ["submit", "read"]}
//	@x-example-user     {"scopes": ["submit", "read"], "user": "ada", "expires_at": "2100-01-01T00:00:00Z"}
//	@Router      /v1/admin/tenants/{id}/keys [post]

// listKeys
//
//	@Summary     List a tenant's keys
//	@Description Without their secrets, which nobody has any more.
//	@ID          listKeys
//	@Tags        Admin
//	@Param       id         path  string true  "The tenant's id." Format(uuid)
//	@Param       page_size  query int    false "How many at most."
//	@Param       page_token query string false "The `next_page_token` of the page before."
//	@Success     200 {object} api.Page[api.Key] "A page of keys."
//	@x-access    "operator"
//	@Router      /v1/admin/tenants/{id}/keys [get]

// createPlatformKey
//
//	@Summary     Make a platform key
//	@Description For workers that serve all tenants: it claims from every tenant's queues of the names it asks for, and its claims say whose each job is. It has the scope `work` and no other. `key` is shown in this answer only.
//	@ID          createPlatformKey
//	@Tags        Admin
//	@Param       key body api.PlatformKeyRequest false "When it expires, if ever."
//	@Success     201 {object} api.NewKey "The key."
//	@x-access    "operator"
//	@x-example-lasting  {}
//	@x-example-expiring {"expires_at": "2100-01-01T00:00:00Z"}
//	@Router      /v1/admin/platform-keys [post]

// revokeKey
//
//	@Summary     Revoke a key
//	@Description This gateway stops taking it at once, others within 30 s. A repeat is 204 again.
//	@ID          revokeKey
//	@Tags        Admin
//	@Param       key_id path string true "The key's id: its part between the second and the third underscore."
//	@Success     204 "The key is good for nothing any more."
//	@x-access    "operator"
//	@Router      /v1/admin/keys/{key_id} [delete]

// getPlan
//
//	@Summary     Read a plan
//	@Description A named set of limits; null is no limit.
//	@ID          getPlan
//	@Tags        Admin
//	@Param       name path string true "The plan's name."
//	@Success     200 {object} api.Plan "The plan."
//	@x-access    "operator"
//	@Router      /v1/admin/plans/{name} [get]

// putPlan
//
//	@Summary     Set a plan
//	@Description Makes the plan, or replaces all of it: a limit that is absent is none. It holds for all its tenants here at once, at other gateways within 30 s.
//	@ID          putPlan
//	@Tags        Admin
//	@Param       name path string          true "The plan's name."
//	@Param       plan body api.PlanRequest true "The plan."
//	@Success     200 {object} api.Plan "The plan as it is now."
//	@x-access    "operator"
//	@x-example-small {"limits": {"requests_per_second": 50, "request_burst": 100, "jobs_per_second": 20, "job_burst": 200, "max_active": 10000, "user_max_active": 1000}, "visibility_timeout_ms_max": 3600000}
//	@Router      /v1/admin/plans/{name} [put]
