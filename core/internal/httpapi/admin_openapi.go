package httpapi

import _ "github.com/forgequeue/forgequeue/shared/api" // where swag finds the types that are named here

// lookupKey
//
//	@Summary     Look a key up
//	@Description For the gateway, before it knows who calls. A revoked or expired key is not found. The secret's HMAC is under the gateway's own secret: core never sees a key.
//	@ID          keyLookups
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyLookupRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.HopKey] "An answer for each item."
//	@x-access    "anybody"
//	@x-problems  ["not_found"]
//	@x-example-key {"key_id": "8y2k4m6n8p0q"}
//	@Router      /internal/v1/key-lookups [post]

// createTenant
//
//	@Summary     Make a tenant
//	@Description Under an id that the gateway drew.
//	@ID          tenantCreations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopTenantCreateRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Tenant] "An answer for each item."
//	@x-access    "operator"
//	@x-example-tenant {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "name": "Example Ltd"}
//	@Router      /internal/v1/tenant-creations [post]

// listTenants
//
//	@Summary     List tenants
//	@Description Newest first.
//	@ID          tenantLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Tenant]] "An answer for each item."
//	@x-access    "operator"
//	@x-example-first {"page_size": 50}
//	@Router      /internal/v1/tenant-lists [post]

// patchTenant
//
//	@Summary     Change a tenant
//	@Description What is absent stays; overrides replace all overrides. All gateways hear of it.
//	@ID          tenantPatches
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopTenantPatchRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Tenant] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-weight {"id": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "weight": 5}
//	@Router      /internal/v1/tenant-patches [post]

// createKey
//
//	@Summary     Store a key
//	@Description A key that the gateway drew: its id and its secret's HMAC.
//	@ID          keyCreations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyCreateRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Key] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-tenant {"key_id": "exampleexamp", "kind": "tenant", "secret_hmac": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "scopes": ["submit", "read"]}
//	@Router      /internal/v1/key-creations [post]

// listKeys
//
//	@Summary     List a tenant's keys
//	@Description Without their HMACs.
//	@ID          keyLists
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPageRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Page[api.Key]] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-first {"tenant": "01980a5c-7b1e-7cc0-9d5e-3f2b6a1c0002", "page_size": 50}
//	@Router      /internal/v1/key-lists [post]

// revokeKey
//
//	@Summary     Revoke a key
//	@Description A repeat changes nothing. All gateways hear of it.
//	@ID          keyRevocations
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopKeyLookupRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[any] "An answer for each item."
//	@x-access    "operator"
//	@x-example-key {"key_id": "8y2k4m6n8p0q"}
//	@Router      /internal/v1/key-revocations [post]

// getPlan
//
//	@Summary     Read a plan
//	@Description A named set of limits.
//	@ID          planGets
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPlanGetRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Plan] "An answer for each item."
//	@x-access    "operator"
//	@x-problems  ["not_found"]
//	@x-example-standard {"name": "standard"}
//	@Router      /internal/v1/plan-gets [post]

// putPlan
//
//	@Summary     Set a plan
//	@Description Makes it, or replaces all of it. All gateways hear of it.
//	@ID          planPuts
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopPlanPutRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Plan] "An answer for each item."
//	@x-access    "operator"
//	@x-example-small {"name": "small", "limits": {"jobs_per_second": 20, "job_burst": 200, "max_active": 10000}}
//	@Router      /internal/v1/plan-puts [post]

// caps
//
//	@Summary     What is used of the caps
//	@Description The caps of the principal's tenant, and of `user` where it is named.
//	@ID          caps
//	@Tags        Tenants and keys
//	@Param       envelope body api.Envelope[api.HopCapsRequest] true "The callers' requests."
//	@Success     200 {object} api.Results[api.HopCapsResponse] "An answer for each item."
//	@x-access    "tenant"
//	@x-example-tenant {}
//	@Router      /internal/v1/caps [post]

// ready
//
//	@Summary     How core does
//	@Description As /readyz says it, to a gateway that has only signed calls.
//	@ID          readiness
//	@Tags        Health
//	@Param       envelope body api.Envelope[any] true "The callers' requests."
//	@Success     200 {object} api.Results[api.Readiness] "An answer for each item."
//	@x-access    "anybody"
//	@x-example-ask {}
//	@Router      /internal/v1/readiness [post]
